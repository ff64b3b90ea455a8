//! The tables against the headers that are installed.

use super::{Abi, NAMED, PREDEFINED_OPS, UNDEFINED};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Compilers that know where a header is; and what `CI_MPI_HEADERS` names, folders with `mpi.h` or `mpi_abi.h` in them, separated by colons.
fn headers() -> Vec<(String, Vec<String>, &'static str)> {
    let mut found = Vec::new();
    for compiler in ["mpicc.mpich", "mpicc.openmpi"] {
        if Command::new(compiler).arg("-show").output().is_ok_and(|o| o.status.success()) {
            found.push((compiler.to_owned(), vec![compiler.to_owned()], "mpi.h"));
        }
    }
    let folders = std::env::var("CI_MPI_HEADERS").unwrap_or_default();
    for folder in folders.split(':').filter(|f| !f.is_empty()) {
        for header in ["mpi.h", "mpi_abi.h"] {
            if Path::new(folder).join(header).exists() {
                let words = ["cc".to_owned(), "-I".to_owned(), folder.to_owned()];
                found.push((format!("{folder}/{header}"), words.to_vec(), header));
            }
        }
    }
    found
}

/// A program that prints every constant of the tables, by name, as far as the header has it. Of Open MPI, whose handles are
/// addresses, the preprocessor says which symbols they are.
fn source(header: &str) -> String {
    let mut text = format!(
        "#include <stdio.h>\n#include <{header}>\n#define TEXT(x) #x\n#define SHOW(x) TEXT(x)\nint main(void) {{\n"
    );
    let names = NAMED.iter().map(|n| n.name).chain(PREDEFINED_OPS.iter().map(|o| o.name));
    let fixed =
        ["COMM_WORLD", "COMM_NULL", "DATATYPE_NULL", "OP_NULL", "IN_PLACE", "STATUS_IGNORE", "ANY_SOURCE"];
    let numbers = [
        "ROOT",
        "PROC_NULL",
        "UNDEFINED",
        "ERR_OTHER",
        "COMBINER_NAMED",
        "COMBINER_DUP",
        "COMBINER_CONTIGUOUS",
    ];
    for name in names.chain(fixed).chain(numbers) {
        let _ = writeln!(text, "#ifdef OMPI_MAJOR_VERSION\nputs(\"{name} \" SHOW(MPI_{name}));\n#else");
        let _ = writeln!(text, "printf(\"{name} %ld\\n\", (long)MPI_{name});\n#endif");
    }
    text + "}\n"
}

/// What the program says of a name.
fn value(output: &str, name: &str) -> String {
    let line = output.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} was not printed")).to_owned()
}

#[test]
fn the_tables_say_what_the_headers_say() {
    let folder = tempfile::tempdir().unwrap();
    let headers = headers();
    for (name, compiler, header) in &headers {
        let (program, source_file) = (folder.path().join("constants"), folder.path().join("constants.c"));
        std::fs::write(&source_file, source(header)).unwrap();
        // Constants only: no library is needed, and none is started. A name that the header lacks is an error here.
        let built = Command::new(&compiler[0])
            .args(&compiler[1..])
            .arg("-o")
            .arg(&program)
            .arg(&source_file)
            .output()
            .unwrap();
        assert!(built.status.success(), "{name}: {}", String::from_utf8_lossy(&built.stderr));
        let said = Command::new(&program).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        println!("{name}: {} constants", said.lines().count());
        if said.contains("ompi_mpi_comm_world") {
            open_mpi(name, &said);
        } else {
            let abi = if *header == "mpi_abi.h" { Abi::standard() } else { Abi::mpich() };
            numbers(name, &said, &abi);
        }
    }
    if headers.is_empty() {
        println!("skip: no mpi.h here (libmpich-dev, libopenmpi-dev)");
    }
}

fn numbers(header: &str, said: &str, abi: &Abi) {
    let is = |name: &str, ours: usize| {
        let theirs: i64 = value(said, name).parse().unwrap();
        // An int handle may be written as a negative number.
        let theirs = if ours <= u32::MAX as usize { theirs as u32 as usize } else { theirs as usize };
        assert_eq!(theirs, ours, "{header}: MPI_{name}");
    };
    for named in NAMED {
        is(named.name, abi.named_type(named).unwrap());
    }
    for op in PREDEFINED_OPS {
        is(op.name, abi.predefined_op(op).unwrap());
    }
    for (name, ours) in [
        ("COMM_WORLD", abi.world),
        ("COMM_NULL", abi.comm_null),
        ("DATATYPE_NULL", abi.type_null),
        ("OP_NULL", abi.op_null),
        ("IN_PLACE", abi.in_place),
        ("STATUS_IGNORE", abi.status_ignore),
        ("BYTE", abi.byte),
        ("INT", abi.int),
        ("MIN", abi.min),
    ] {
        is(name, ours);
    }
    for (name, ours) in [
        ("ANY_SOURCE", abi.any_source),
        ("ROOT", abi.root),
        ("PROC_NULL", abi.proc_null),
        ("UNDEFINED", UNDEFINED),
        ("ERR_OTHER", abi.err_other),
        ("COMBINER_NAMED", abi.named),
        ("COMBINER_DUP", abi.named + 1),
        ("COMBINER_CONTIGUOUS", abi.named + 2),
    ] {
        assert_eq!(value(said, name), ours.to_string(), "{header}: MPI_{name}");
    }
}

fn open_mpi(header: &str, said: &str) {
    let is = |name: &str, ours: &std::ffi::CStr| {
        let text = value(said, name);
        let symbol =
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find(|w| w.starts_with("ompi_"));
        assert_eq!(symbol, ours.to_str().ok(), "{header}: MPI_{name} is {text}");
    };
    NAMED.iter().for_each(|n| is(n.name, n.open_mpi));
    PREDEFINED_OPS.iter().for_each(|o| is(o.name, o.open_mpi));
    is("COMM_WORLD", c"ompi_mpi_comm_world");
    is("COMM_NULL", c"ompi_mpi_comm_null");
    is("DATATYPE_NULL", c"ompi_mpi_datatype_null");
    is("OP_NULL", c"ompi_mpi_op_null");
    for (name, number) in [
        ("ANY_SOURCE", "-1"),
        ("ROOT", "-4"),
        ("PROC_NULL", "-2"),
        ("UNDEFINED", &UNDEFINED.to_string()),
        ("ERR_OTHER", "16"),
        ("IN_PLACE", "((void *) 1)"),
        ("STATUS_IGNORE", "((MPI_Status *) 0)"),
    ] {
        assert_eq!(value(said, name), number, "{header}: MPI_{name}");
    }
}
