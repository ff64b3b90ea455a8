//! `circulant mpi`: what the command gets.

use std::process::{Command, Output};

fn mpi(words: &[&str], preload: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_circulant"));
    command.arg("mpi").args(words).env_remove("LD_PRELOAD");
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    command.output().unwrap()
}

#[test]
fn the_command_is_given_the_library() {
    let folder = tempfile::tempdir().unwrap();
    // The loader says that it cannot preload this, and goes on.
    let library = folder.path().join("libcirculant_mpi.so");
    std::fs::write(&library, "no library").unwrap();
    let (library, show) = (library.canonicalize().unwrap(), "echo \"$LD_PRELOAD|$1\"");
    let path = library.to_str().unwrap();
    let done = mpi(&["--library", path, "--", "sh", "-c", show, "sh", "-n"], None);
    assert_eq!(String::from_utf8_lossy(&done.stdout), format!("{path}|-n\n"), "{done:?}");
    let done = mpi(&["--library", path, "--", "sh", "-c", show], Some("libc.so.6"));
    assert_eq!(String::from_utf8_lossy(&done.stdout), format!("{path}:libc.so.6|\n"), "{done:?}");
}

#[test]
fn what_is_not_there_is_named() {
    let done = mpi(&["--library", "/nowhere/lib.so", "--", "true"], None);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(1) && said.contains("/nowhere/lib.so"), "{said}");
    let library = env!("CARGO_BIN_EXE_circulant");
    let done = mpi(&["--library", library, "--", "no-such-launcher"], None);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(1) && said.contains("no-such-launcher"), "{said}");
    assert_eq!(mpi(&[], None).status.code(), Some(2));
}
