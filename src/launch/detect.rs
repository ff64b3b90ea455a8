//! Which launcher started us. Never N silent jobs of size 1: a launcher that speaks of more ranks than one
//! and cannot be reached is an error.

use super::environment::{self, Assignment};
use super::libpmi::{LibPmi, PALS, SLURM};
use super::pmi1::Pmi1;
use super::pmix::Pmix;
use super::single::Single;
use super::variables::from_environment;
use super::{Launch, fd, session, side};
use crate::config::{Config, FOR_EVER, Launcher, Library, Logging};
use crate::error::{Error, ErrorKind, Result};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

type Found = Option<Box<dyn Launch>>;

/// Finds the launcher and joins the job. In this order, unless the setting `launcher` names one:
///
/// - `pmi1`: an open socket in `PMI_FD`; `PMI_PORT` with `PMI_ID`
/// - `pmix`: `PMIX_NAMESPACE`, `PMIX_RANK` and `PMIX_SERVER_URI…`
/// - `env`: `CIRCULANT_RANK`, `CIRCULANT_SIZE`, `CIRCULANT_ROOT`
/// - `libpmi`: `PALS_RANKID`, or a step of Slurm with several ranks, by the library that the launcher brings
/// - `single`: none, that is, a job of size 1
///
/// A process joins once and keeps the connection. What this returns is for one world: after its [`Launch::finalize`] the next
/// call returns another one, over the same connection, whose keys are its own. All ranks make as many, in the same order.
/// With a foreign launcher finalize comes when the process ends in order, with ours after each world.
///
/// # Errors
/// When the setting `launcher` was not understood; when the environment says that we are one of several ranks but the launcher cannot be reached; when it does not answer
/// within the setting `start-deadline`, or its library is missing; when what an earlier call returned was not finalized.
pub fn detect(config: &Config) -> Result<Box<dyn Launch>> {
    config.check_one("launcher")?;
    let variable = from_environment;
    let timeout = config.start_deadline.unwrap_or(FOR_EVER);
    let asked = config.launcher;
    let by = |way: Launcher| -> Result<Found> {
        match way {
            Launcher::Pmi1 => pmi1(&variable, timeout),
            Launcher::Pmix => pmix(&variable, &config.libpmix, timeout),
            Launcher::Env => env(&variable, config.log, timeout),
            Launcher::Libpmi => libpmi(&variable, &config.libpmi, timeout, asked == Launcher::Libpmi),
            Launcher::Auto | Launcher::Single => Ok(None),
        }
    };
    if asked != Launcher::Single
        && let Some(session) = session::next(asked)?
    {
        return Ok(session);
    }
    match asked {
        Launcher::Single => Ok(Box::new(Single::new())),
        Launcher::Auto => {
            for way in [Launcher::Pmi1, Launcher::Pmix, Launcher::Env, Launcher::Libpmi] {
                if let Some(found) = by(way)? {
                    return Ok(found);
                }
            }
            several(&variable).map_or_else(|| Ok(Box::new(Single::new()) as Box<dyn Launch>), Err)
        }
        way => by(way)?.ok_or_else(|| not_there(way, &variable)),
    }
}

/// How many ranks the environment speaks of, if several, before [`detect`] asks the launcher. Starts nothing.
pub fn expected_size(config: &Config) -> Option<usize> {
    (config.launcher != Launcher::Single).then(|| expected(&from_environment))?
}

/// What is expected of a launcher that tells its size only when asked: as many as libfabric itself expects (the default of
/// FI_UNIVERSE_SIZE).
const UNTOLD: usize = 256;

fn expected(variable: Variables<'_>) -> Option<usize> {
    let size = variable(environment::VARIABLES[1]).and_then(|size| size.trim().parse().ok());
    let told = size.or_else(|| sizes(variable).next().and_then(|(_, size)| usize::try_from(size).ok()));
    match told {
        Some(size) => Some(size).filter(|&size| size > 1),
        None => PRESENCE.iter().any(|sign| variable(sign.0).is_some()).then_some(UNTOLD),
    }
}

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The PMIx client, where the environment names a server.
fn pmix(variable: Variables<'_>, library: &Library, timeout: Duration) -> Result<Found> {
    if variable("PMIX_NAMESPACE").is_none() || variable("PMIX_RANK").is_none() || server(variable).is_none() {
        return Ok(None);
    }
    match session::first(Launcher::Pmix, environment::secret(variable)?, || Pmix::join(library, timeout)) {
        Ok(pmix) => Ok(Some(pmix)),
        // A process that is known to be alone can do without the library.
        Err(e) if e.kind() == ErrorKind::Library && several(variable).is_none() => Ok(None),
        Err(e) => Err(e),
    }
}

/// The variable in which a PMIx server says where it is; its name has a version in it.
fn server(variable: Variables<'_>) -> Option<String> {
    let versions = ["41", "4", "5", "3", "21", "2", "", "USOCK"];
    versions.iter().find_map(|v| variable(&format!("PMIX_SERVER_URI{v}")))
}

/// What our own variables say.
fn env(variable: Variables<'_>, log: Logging, timeout: Duration) -> Result<Found> {
    let Some(assignment) = Assignment::of(variable)? else { return Ok(None) };
    let assignment = assignment.logging(log);
    if assignment.size == 1 {
        return Ok(Some(Box::new(Single::new())));
    }
    let secret = assignment.secret();
    session::first(Launcher::Env, secret, || environment::join(&assignment, timeout)).map(Some)
}

/// The launcher's own libpmi: PALS, and Slurm without a plugin. Not where something else has spoken of PMI: then the
/// variables looked at here may be those of an outer job. `forced`: whatever the variables say.
fn libpmi(variable: Variables<'_>, library: &Library, timeout: Duration, forced: bool) -> Result<Found> {
    let pals = variable("PALS_RANKID").is_some();
    let slurm = variable("SLURM_PROCID").is_some() && variable("SLURM_SRUN_COMM_PORT").is_some();
    let expected = ["PALS_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"].into_iter().find_map(|name| {
        let wanted = if name == "PALS_SIZE" { pals } else { variable("SLURM_PROCID").is_some() };
        Some((variable(name).filter(|_| wanted)?.trim().parse::<usize>().ok()?, name))
    });
    let others = ["PMI_SIZE", "PMI_FD", "PMIX_RANK"].iter().any(|name| variable(name).is_some());
    let alone = expected.is_some_and(|(size, _)| size <= 1);
    if !forced && (others || alone || !(pals || slurm)) {
        return Ok(None);
    }
    let vendor = if pals { PALS } else { SLURM };
    let secret = environment::secret(variable)?;
    session::first(Launcher::Libpmi, secret, || LibPmi::join(vendor, library, expected, timeout)).map(Some)
}

/// The PMI-1 client, where the environment leads to one.
fn pmi1(variable: Variables<'_>, timeout: Duration) -> Result<Found> {
    if let Some(Ok(stream)) = pmi_fd(variable) {
        let number = |name: &str| {
            let text = variable(name);
            text.as_deref().and_then(|t| t.parse::<usize>().ok()).ok_or_else(|| {
                let found = text.map_or("is not set".to_owned(), |t| format!("is {t:?}"));
                Error::new(ErrorKind::Launch, format!("PMI_FD leads to a launcher, but {name} {found}"))
            })
        };
        let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
        let side = variable(side::VARIABLE);
        let join = || Pmi1::over_socket(stream, rank, size, side.as_deref(), timeout);
        return session::first(Launcher::Pmi1, environment::secret(variable)?, join).map(Some);
    }
    let (Some(address), Some(id)) = (variable("PMI_PORT"), variable("PMI_ID")) else { return Ok(None) };
    if !id.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::new(ErrorKind::Launch, format!("PMI_ID is no identifier: {id:?}")));
    }
    let secret = environment::secret(variable)?;
    session::first(Launcher::Pmi1, secret, || Pmi1::over_port(&address, &id, timeout)).map(Some)
}

/// The socket that `PMI_FD` names, or why there is none.
fn pmi_fd(variable: Variables<'_>) -> Option<io::Result<std::os::unix::net::UnixStream>> {
    let fd = variable("PMI_FD")?;
    Some(match fd.parse::<RawFd>() {
        Ok(fd) => fd::adopt_socket(fd),
        Err(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a number")),
    })
}

/// A sign that we are one of several ranks.
struct Sign {
    /// The variable that says how many.
    size: &'static str,
    /// Counts only together with this one ("" = always): it is set in the ranks only.
    with: &'static str,
    /// The launcher that sets it.
    launcher: &'static str,
    /// What to do.
    help: &'static str,
}

const STEP: &str = "start it with: srun --mpi=pmi2 PROGRAM";
const PMIX: &str = "start the program by mpirun, prterun or srun itself, and leave PMIX_NAMESPACE, PMIX_RANK and \
     PMIX_SERVER_URI… as they set them";
const MODULE: &str = "start it with its mpiexec or aprun, or with: srun --mpi=pmi2 PROGRAM";
const PMI: &str =
    "only the process that the launcher started can join, and no program in between may close the descriptor";

const SIGNS: &[Sign] = &[
    Sign { size: "PMI_SIZE", with: "", launcher: "a PMI launcher", help: PMI },
    Sign { size: "SLURM_STEP_NUM_TASKS", with: "SLURM_PROCID", launcher: "srun", help: STEP },
    Sign { size: "SLURM_NTASKS", with: "SLURM_PROCID", launcher: "Slurm", help: STEP },
    Sign { size: "OMPI_COMM_WORLD_SIZE", with: "", launcher: "mpirun of Open MPI", help: PMIX },
    Sign { size: "MPI_LOCALNRANKS", with: "", launcher: "mpiexec", help: PMI },
    Sign {
        size: "FLUX_JOB_SIZE",
        with: "",
        launcher: "Flux",
        help: "start it with: flux run -o pmi=simple PROGRAM",
    },
    Sign { size: "PALS_SIZE", with: "", launcher: "HPE PALS", help: MODULE },
];

/// Launchers that give a rank but no size: whether there are more ranks cannot be known.
const PRESENCE: &[(&str, &str, &str)] = &[
    ("PMIX_RANK", "a PMIx launcher", PMIX),
    ("PMIX_NAMESPACE", "a PMIx launcher", PMIX),
    ("PALS_RANKID", "HPE PALS", MODULE),
];

/// The signs that are there, each with its size.
fn sizes(variable: Variables<'_>) -> impl Iterator<Item = (&'static Sign, u64)> {
    SIGNS.iter().filter(move |s| s.with.is_empty() || variable(s.with).is_some()).filter_map(move |s| {
        let size: u64 = variable(s.size)?.trim().parse().ok()?;
        Some((s, size))
    })
}

/// The error when the environment speaks of several ranks.
fn several(variable: Variables<'_>) -> Option<Error> {
    let mut known = false;
    let found = sizes(variable).find(|&(_, size)| {
        known = true;
        size > 1
    });
    let (what, launcher, help) = if let Some((s, size)) = found {
        (format!("{}={size}", s.size), s.launcher, s.help)
    } else {
        // A launcher that tells a size of 1 settles it.
        let sign = PRESENCE.iter().find(|s| !known && variable(s.0).is_some())?;
        (sign.0.to_owned(), sign.1, sign.2)
    };
    let message =
        format!("{launcher} started several ranks ({what}), but it cannot be reached: {}", reach(variable));
    Some(
        Error::new(ErrorKind::Launch, message)
            .help(format!("{help}; for a job of its own size 1 set CIRCULANT_LAUNCHER=single")),
    )
}

/// What became of the ways to a launcher.
fn reach(variable: Variables<'_>) -> String {
    match (variable("PMI_FD"), pmi_fd(variable)) {
        (Some(fd), Some(Err(e))) => format!("PMI_FD={fd} is not an open socket ({e})"),
        _ if variable("PMI_PORT").is_some() => "PMI_PORT is set, but not PMI_ID".to_owned(),
        _ if variable("PMIX_RANK").is_some() || variable("PMIX_NAMESPACE").is_some() => {
            let missing = ["PMIX_NAMESPACE", "PMIX_RANK"].into_iter().find(|name| variable(name).is_none());
            format!("{} is not set", missing.unwrap_or("PMIX_SERVER_URI…"))
        }
        _ => "neither PMI_FD, PMI_PORT nor PMIX_RANK is set".to_owned(),
    }
}

fn not_there(way: Launcher, variable: Variables<'_>) -> Error {
    let (why, help) = match way {
        Launcher::Pmix => (reach(variable), "start it with mpirun, prterun or srun --mpi=pmix"),
        Launcher::Env => (
            "CIRCULANT_RANK is not set".to_owned(),
            "set CIRCULANT_RANK, CIRCULANT_SIZE and CIRCULANT_ROOT=host:port for each process",
        ),
        _ => (reach(variable), "start it with circulant run, mpiexec.hydra or srun --mpi=pmi2"),
    };
    Error::new(ErrorKind::Launch, format!("CIRCULANT_LAUNCHER={}, but {why}", way.name())).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(environment: &[(&str, &str)]) -> Option<String> {
        let variable =
            |name: &str| environment.iter().find(|v| v.0 == name && !v.1.is_empty()).map(|v| v.1.to_owned());
        several(&variable).map(|e| e.to_string())
    }

    #[test]
    fn several_ranks_are_never_taken_for_one() {
        for (environment, words) in [
            (&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")][..], &["SLURM_NTASKS=4", "srun --mpi=pmi2"][..]),
            (&[("SLURM_NTASKS", "1"), ("SLURM_PROCID", "0"), ("PMI_SIZE", "3")], &["PMI_SIZE=3"]),
            (
                &[("PMI_SIZE", "2"), ("PMI_FD", "987654")],
                &["PMI_SIZE=2", "PMI_FD=987654 is not an open socket"],
            ),
            (&[("PMI_SIZE", "2"), ("PMI_FD", "x")], &["not a number"]),
            (
                &[("OMPI_COMM_WORLD_SIZE", "8"), ("PMIX_RANK", "3")],
                &["OMPI_COMM_WORLD_SIZE=8", "PMIX_NAMESPACE is not set"],
            ),
            (
                &[("PMIX_NAMESPACE", "prte"), ("PMIX_RANK", "0")],
                &["PMIX_RANK", "PMIX_SERVER_URI… is not set"],
            ),
            (&[("MPI_LOCALNRANKS", "2")], &["MPI_LOCALNRANKS=2"]),
            (&[("PALS_RANKID", "0")], &["PALS"]),
        ] {
            let error = verdict(environment).unwrap_or_else(|| panic!("{environment:?} passed for one rank"));
            for word in words.iter().chain(&["CIRCULANT_LAUNCHER=single"]) {
                assert!(error.contains(word), "{word:?} is not in {error:?}");
            }
        }
    }

    #[test]
    fn the_size_is_expected_before_the_launcher_is_asked() {
        for (environment, size) in [
            (&[][..], None),
            (&[("CIRCULANT_SIZE", "3"), ("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")], Some(3)),
            (&[("CIRCULANT_SIZE", "1")], None),
            (&[("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "n")], Some(4)),
            (&[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "n")], None),
            (&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "n")], Some(UNTOLD)),
            (&[("SLURM_NTASKS", "8")], None),
            (&[("PALS_RANKID", "1"), ("PALS_SIZE", "6")], Some(6)),
        ] {
            let variable =
                |name: &str| environment.iter().find(|v| v.0 == name).map(|v: &(&str, &str)| v.1.to_owned());
            assert_eq!(expected(&variable), size, "{environment:?}");
        }
    }

    #[test]
    fn one_rank_may_be_alone() {
        for environment in [
            &[][..],
            &[("SLURM_NTASKS", "4")], // a shell of salloc, not a rank
            &[("SLURM_NTASKS", "1"), ("SLURM_PROCID", "0")],
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")],
            &[("PMI_SIZE", "1"), ("PMI_FD", "987654")],
            &[("PMI_SIZE", "many")],
        ] {
            assert_eq!(verdict(environment), None, "{environment:?}");
        }
    }
}
