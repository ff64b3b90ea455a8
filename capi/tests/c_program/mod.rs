//! Compiles programs of tests/c, against an installed libcirculant.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[track_caller]
pub(crate) fn success(out: Output) -> String {
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}\n{text}{errors}", out.status);
    text.into_owned()
}

/// A program of tests/c, linked with the shared library or with the static one.
pub(crate) fn built(name: &str, shared: bool) -> (tempfile::TempDir, PathBuf) {
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
