//! C programs against an installed libcirculant: ranks that are children of one process and find each other by the bootstrap of the
//! interface. (Under `circulant run`, and with CMake, C++ and Fortran: `ci/bindings-c`.)
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[track_caller]
fn success(out: Output) -> String {
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}\n{text}{errors}", out.status);
    text.into_owned()
}

/// A program of tests/c, linked with the shared library or with the static one.
fn built(name: &str, shared: bool) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let from = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    success(Command::new(here("install")).arg("--from").arg(from).arg(folder.path()).output().unwrap());
    let (program, lib) = (folder.path().join(name), folder.path().join("lib"));
    let (compiler, standard, ending) =
        if name == "forms" { ("c++", "-std=c++17", "cpp") } else { ("cc", "-std=c99", "c") };
    let mut cc = Command::new(compiler);
    cc.args([standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    cc.arg(here("tests/c").join(format!("{name}.{ending}"))).arg("-I").arg(folder.path().join("include"));
    match shared {
        true => cc.arg("-L").arg(&lib).arg("-lcirculant").arg(format!("-Wl,-rpath,{}", lib.display())),
        false => {
            cc.arg(lib.join("libcirculant.a")).args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"])
        }
    };
    success(cc.output().unwrap());
    (folder, program)
}

fn run(name: &str, shared: bool, sizes: &[&str]) {
    let (_folder, program) = built(name, shared);
    // A job of one rank, without a launcher.
    success(Command::new(&program).output().unwrap());
    for size in sizes {
        success(Command::new(&program).args(["--fork", size]).output().unwrap());
    }
}

#[test]
fn collectives() {
    run("collectives", true, &["1", "4", "5"]);
}

#[test]
fn collectives_linked_statically() {
    run("collectives", false, &["3"]);
}

#[test]
fn neighbors() {
    run("neighbors", true, &["1", "2", "4"]);
}

#[test]
fn forms_of_cpp() {
    run("forms", true, &["2", "4"]);
}

#[test]
fn registered() {
    run("registered", true, &["1", "3"]);
}

#[test]
fn errors() {
    run("errors", true, &["1", "4"]);
}

/// What `find_package (circulant 0.1)` compares.
#[test]
fn cmake_has_the_version_of_the_package() {
    let file = std::fs::read_to_string(here("cmake/circulant-config-version.cmake")).unwrap();
    let says = format!("set (PACKAGE_VERSION \"{}\")", env!("CARGO_PKG_VERSION"));
    assert!(file.contains(&says), "{says}");
}
