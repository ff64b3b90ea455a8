//! Looks programs up, as a shell does.

use super::args::OURS;
use circulant::{Error, ErrorKind};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the program is, as a shell in `folder` would find it; else the shell's exit code and the reason.
pub(super) fn find(word: &OsStr, folder: &Path) -> Result<PathBuf, (u8, Error)> {
    let shown = Path::new(word).display();
    let error = |code, message: String| (code, Error::new(ErrorKind::Argument, message));
    if word.is_empty() {
        return Err(error(127, "the name of the program is empty".to_owned()));
    }
    if word.as_bytes().contains(&b'/') {
        return match fit(&folder.join(word)) {
            Ok(()) => Ok(PathBuf::from(word)),
            Err((code, why)) => Err(error(code, format!("{shown}: {why}"))),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut unfit = None;
    for folder in std::env::split_paths(&path) {
        let here = folder.as_os_str().is_empty();
        let candidate = if here { Path::new(".").join(word) } else { folder.join(word) };
        match fit(&candidate) {
            Ok(()) => return Ok(candidate),
            Err((126, why)) => {
                unfit.get_or_insert_with(|| error(126, format!("{}: {why}", candidate.display())));
            }
            Err(_) => {}
        }
    }
    Err(unfit.unwrap_or_else(|| {
        let (code, missing) = error(127, format!("there is no program {shown} in PATH"));
        let help = match Path::new(word).is_file() {
            true => format!("for the file in this folder say ./{shown}"),
            false => {
                format!("{} are the tool's own, others need a path or a folder in PATH", OURS.join(", "))
            }
        };
        (code, missing.help(help))
    }))
}

/// Whether a file can be run; if not, a shell's exit code and the reason.
fn fit(path: &Path) -> Result<(), (u8, String)> {
    let about = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => (126, e.to_string()),
        _ => (127, "there is no such program".to_owned()),
    })?;
    if !about.is_file() {
        return Err((126, "it is not a file".to_owned()));
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK)
        .map_err(|_| (126, "it cannot be run (chmod +x is missing?)".to_owned()))
}
