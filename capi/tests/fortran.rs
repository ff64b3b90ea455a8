//! The interfaces of the Fortran module are made of `circulant.h`: `UPDATE_FORTRAN=1 cargo test -p circulant-capi --test fortran` writes them.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod c_header;

use c_header::{Prototype, prototypes, read};
use std::path::Path;

const BEGIN: &str = "  ! Made of circulant.h by capi/tests/fortran.rs.\n";
const END: &str = "  ! The end of what is made of circulant.h.\n";

/// Characters of a line, by the standard of Fortran 2018.
const LONGEST: usize = 132;

/// The Fortran function of a function of C: those that give texts, and `circulant_init`, have a function of the module before them, which has the name.
fn names(one: &Prototype) -> (String, String) {
    let hidden = one.result.starts_with("const char") || one.name == "circulant_init";
    match hidden {
        true => (one.name.replace("circulant_", "c_"), format!("bind(c, name=\"{}\")", one.name)),
        false => (one.name.clone(), "bind(c)".to_owned()),
    }
}

/// The declaration of the argument `c` at place `at` of a function, and its name.
fn declaration(function: &str, at: usize, c: &str) -> (String, String) {
    let name = c.rsplit([' ', '*']).next().unwrap();
    let kind = c.strip_suffix(name).unwrap().trim();
    let (stars, constant) = (kind.matches('*').count(), kind.starts_with("const "));
    let base = kind.trim_start_matches("const ").trim_end_matches(['*', ' ']);
    let scalar = |kind: &str| match (stars, constant, function) {
        (0, ..) => (format!("{kind}, value"), name.to_owned()),
        (1, true, _) => (format!("{kind}, intent(in), optional"), format!("{name}(*)")),
        (1, false, "circulant_neighborhood_ranks") => {
            (format!("{kind}, intent(out), optional"), format!("{name}(*)"))
        }
        (1, false, "circulant_comm_gone") if name == "ranks" => {
            (format!("{kind}, intent(out), optional"), format!("{name}(*)"))
        }
        (1, false, _) => (format!("{kind}, intent(out)"), name.to_owned()),
        _ => panic!("what is {c:?} in Fortran?"),
    };
    // What is freed, ended or looked at comes first; what is made comes last.
    let changes = if at == 0 { "inout" } else { "out" };
    match base {
        "int" | "circulant_type_t" | "circulant_memory_t" | "circulant_status_t" => scalar("integer(c_int)"),
        "size_t" => scalar("integer(c_size_t)"),
        "int64_t" | "uint64_t" => scalar("integer(c_int64_t)"),
        "char" => ("character(kind=c_char), intent(in)".to_owned(), format!("{name}(*)")),
        "circulant_setting_t" => scalar("type(circulant_setting)"),
        "circulant_layout_t" => scalar("type(circulant_layout)"),
        "circulant_bootstrap_t" => ("type(circulant_bootstrap), intent(in)".to_owned(), name.to_owned()),
        _ if base.ends_with("_fn") => ("type(c_funptr), value".to_owned(), name.to_owned()),
        _ if name == "requests" => ("type(c_ptr), intent(inout)".to_owned(), format!("{name}(*)")),
        "circulant_op_t" if stars == 1 => (format!("type(c_ptr), intent({changes})"), name.to_owned()),
        _ if stars == 2 => (format!("type(c_ptr), intent({changes})"), name.to_owned()),
        "void"
        | "circulant_world_t"
        | "circulant_comm_t"
        | "circulant_request_t"
        | "circulant_neighborhood_t"
        | "circulant_op_t" => ("type(c_ptr), value".to_owned(), name.to_owned()),
        _ => panic!("what is {c:?} in Fortran?"),
    }
}

/// A line, or two where it is too long.
fn line(text: &str) -> String {
    if text.len() <= LONGEST {
        return format!("{text}\n");
    }
    let (first, second) = text.split_at(text[..LONGEST - 2].rfind(", ").unwrap() + 2);
    format!("{first}&\n        {second}\n")
}

/// The interface of one function.
fn interface(one: &Prototype) -> String {
    let (name, binding) = names(one);
    let result = match &*one.result {
        "circulant_status_t" | "int" => "integer(c_int)",
        "uint64_t" => "integer(c_int64_t)",
        "const char *" => "type(c_ptr)",
        other => panic!("what is {other:?} in Fortran?"),
    };
    let all: Vec<(String, String)> =
        one.arguments.iter().enumerate().map(|(at, c)| declaration(&one.name, at, c)).collect();
    let list: Vec<&str> = all.iter().map(|(_, name)| name.trim_end_matches("(*)")).collect();
    let kinds = all.iter().map(|(kind, _)| &**kind).chain([result]).collect::<String>();
    let imported = [
        "c_ptr",
        "c_funptr",
        "c_int",
        "c_size_t",
        "c_int64_t",
        "c_char",
        "circulant_setting",
        "circulant_layout",
        "circulant_bootstrap",
    ];
    let imported: Vec<_> = imported
        .into_iter()
        .filter(|kind| kinds.contains(&format!("({kind})")) || kinds.contains(&format!("={kind})")))
        .collect();
    let mut text = line(&format!("    {result} function {name}({}) {binding}", list.join(", ")));
    text += &line(&format!("      import :: {}", imported.join(", ")));
    // Arguments of one kind stand together.
    let mut kinds: Vec<&str> = Vec::new();
    all.iter().for_each(|(kind, _)| {
        if !kinds.contains(&&**kind) {
            kinds.push(kind)
        }
    });
    for kind in kinds {
        let alike: Vec<&str> =
            all.iter().filter(|(other, _)| other == kind).map(|(_, name)| &**name).collect();
        text += &line(&format!("      {kind} :: {}", alike.join(", ")));
    }
    text + "    end function\n"
}

#[test]
fn the_module_is_what_the_header_gives() {
    let module = read("fortran/circulant.f90");
    let (before, rest) = module.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let made: String = prototypes().iter().map(interface).collect();
    let all = format!("{before}{BEGIN}  interface\n{made}  end interface\n{END}{after}");
    assert!(all.lines().all(|line| line.len() <= LONGEST));
    if std::env::var_os("UPDATE_FORTRAN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fortran/circulant.f90");
        return std::fs::write(path, all).unwrap();
    }
    let differs = module.lines().zip(all.lines()).find(|(here, made)| here != made);
    assert!(module == all, "not what UPDATE_FORTRAN=1 writes, first at {differs:?}");
}
