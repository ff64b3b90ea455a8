//! C programs against an installed libcirculant: ranks that are children of one process and find each other by the bootstrap of the
//! interface. (Under `circulant run`, and with CMake, C++ and Fortran: `ci/bindings-c`.)
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod c_program;

use c_program::{built, here, success};
use std::process::Command;

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
