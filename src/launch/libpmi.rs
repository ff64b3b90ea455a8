//! PMI by the launcher's own libpmi: Slurm without a plugin (`srun --mpi=none`), where the library talks to srun by
//! itself, and HPE's PALS, whose wire is not documented. Values go in pieces, as on the wire.

use super::foreign::PmiLibrary;
use super::session::Client;
use super::worker::Worker;
use super::{Gone, Launch, check_key, value};
use crate::config::Library;
use crate::error::{Error, ErrorKind, Result};
use std::time::Duration;

/// Whose library it is, and what to say when it is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vendor {
    /// How we call it.
    pub(super) name: &'static str,
    /// What started us.
    pub(super) launcher: &'static str,
    /// What the library is called.
    pub(super) files: &'static [&'static str],
    /// What to do when there is none.
    pub(super) help: &'static str,
}

/// `srun` without an MPI plugin.
pub(super) const SLURM: Vendor = Vendor {
    name: "libpmi (Slurm)",
    launcher: "srun",
    files: &["libpmi.so.0"],
    help: "start it with: srun --mpi=pmi2 PROGRAM; or install Slurm's libpmi on every node (Debian: libpmi0), or name it \
           by CIRCULANT_LIBPMI",
};

/// HPE's launcher, also behind `srun --mpi=cray_shasta`.
pub(super) const PALS: Vendor = Vendor {
    name: "libpmi (PALS)",
    launcher: "HPE PALS",
    files: &["libpmi.so.0", "/opt/cray/pe/lib64/libpmi.so.0", "/opt/cray/pe/pmi/default/lib/libpmi.so.0"],
    help: "load the module cray-pmi, or name its library by CIRCULANT_LIBPMI; under Slurm, srun --mpi=pmi2 needs none",
};

/// A rank of a job whose launcher brings a libpmi.
#[derive(Debug)]
pub struct LibPmi {
    worker: Worker<PmiLibrary>,
    size: usize,
}

impl LibPmi {
    /// Joins by the library `library` (`auto`: the vendor's names). `expected`: the size that the environment tells,
    /// and the variable that does; another size is an error.
    pub(super) fn join(
        vendor: Vendor,
        library: &Library,
        expected: Option<(usize, &str)>,
        timeout: Duration,
    ) -> Result<Self> {
        let names: Vec<String> = match library.name() {
            "auto" => vendor.files.iter().map(|f| (*f).to_owned()).collect(),
            name => vec![name.to_owned()],
        };
        let said = expected.map(|(size, variable)| format!(" ({variable}={size})")).unwrap_or_default();
        let refused = |why: String| {
            let what =
                format!("{} started several ranks{said}, but its libpmi is no help: {why}", vendor.launcher);
            Error::new(ErrorKind::Launch, what).help(vendor.help)
        };
        let late = || format!("PMI_Init did not return within {} s", timeout.as_secs_f64());
        let worker =
            Worker::start(vendor.name, move || PmiLibrary::join(&names), timeout, late).map_err(refused)?;
        let mut pmi = Self { worker, size: 0 };
        let (file, (rank, size)) = pmi.worker.call("version", |p| (p.name().to_owned(), p.place()))?;
        let place = (usize::try_from(rank).ok(), usize::try_from(size).ok());
        match (place, expected) {
            (_, Some((wanted, _))) if place.1 != Some(wanted) => {
                return Err(refused(format!(
                    "{file} says we are rank {rank} of {size}, so it is another launcher's"
                )));
            }
            ((Some(rank), Some(size)), _) if rank < size => (pmi.worker.rank, pmi.size) = (rank, size),
            _ => return Err(refused(format!("{file} says we are rank {rank} of {size}"))),
        }
        Ok(pmi)
    }
}

impl Launch for LibPmi {
    fn name(&self) -> &str {
        &self.worker.name
    }

    fn rank(&self) -> usize {
        self.worker.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        check_key(key)?;
        let pieces = value::pieces(bytes);
        let named: Vec<_> = pieces.into_iter().enumerate().map(|(i, p)| (value::key(key, i), p)).collect();
        let done =
            self.worker.call("PMI_KVS_Put", move |pmi| named.iter().try_for_each(|(k, v)| pmi.put(k, v)))?;
        self.worker.checked(done)
    }

    fn fence(&mut self, deadline: Duration) -> Result<()> {
        let done = self.worker.within(deadline, "PMI_Barrier", PmiLibrary::fence)?;
        self.worker.checked(done)
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        check_key(key)?;
        let name = key.to_owned();
        let all = move |pmi: &mut PmiLibrary| value::join(|i| pmi.get(&value::key(&name, i)));
        self.worker.value("PMI_KVS_Get", key, all)
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        None
    }

    fn gone(&mut self) -> Option<Gone> {
        None
    }

    fn abort(&mut self, code: i32, message: &str) {
        self.worker.abort(PmiLibrary::abort, code, message);
    }

    fn finalize(&mut self) -> Result<()> {
        let done = self.worker.call("PMI_Finalize", PmiLibrary::finalize)?;
        self.worker.close("already finalized");
        self.worker.checked(done)
    }
}

impl Client for LibPmi {
    fn leave(&mut self) -> Result<bool> {
        self.worker.usable().map(|()| false)
    }

    fn rejoin(&mut self) -> Result<()> {
        self.worker.usable()
    }
}
