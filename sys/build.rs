//! With the `bindgen` feature: generates the bindings anew from the headers installed on this machine.
//! `ci/bindings` compares them with the committed ones.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=wrapper.h");
    #[cfg(feature = "bindgen")]
    generate::run();
}

#[cfg(feature = "bindgen")]
mod generate {
    use bindgen::callbacks::{IntKind, ParseCallbacks};
    use std::path::PathBuf;

    /// What an RDM endpoint with messages and puts needs; everything these mention comes along.
    const TYPES: &[&str] = &[
        "fi_info",
        "fi_(av|cq|eq|cntr|domain|fabric|ep|tx|rx)_attr",
        "fi_context2?",
        "fi_cq_data_entry",
        "fi_cq_err_entry",
        "fi_msg_rma",
        "fi_rma_iov",
        "fi_type",
        "fid_(fabric|domain|ep|cq|av|mr)",
    ];
    const FUNCTIONS: &[&str] = &["fi_(getinfo|freeinfo|dupinfo|fabric|strerror|tostr|version)"];
    const VARIABLES: &[&str] = &[
        "FI_(MSG|RMA|SEND|RECV|READ|WRITE|REMOTE_READ|REMOTE_WRITE|REMOTE_CQ_DATA|TRANSMIT|COMPLETION|INJECT)",
        "FI_(CONTEXT|CONTEXT2|BUFFERED_RECV|RX_CQ_DATA|SOURCE|LOCAL_COMM|REMOTE_COMM)",
        "FI_MR_(LOCAL|VIRT_ADDR|ALLOCATED|PROV_KEY|ENDPOINT)",
        "FI_E(AGAIN|AVAIL|NOSYS|NODATA|INVAL|NOMEM|CANCELED|BUSY)",
        "FI_(SOCKADDR|SOCKADDR_IN|SOCKADDR_IN6|SOCKADDR_IB|ADDR_STR|FORMAT_UNSPEC)",
        "FI_ENABLE",
    ];

    /// One type for all flags and mode bits, whatever width their literals had in C.
    #[derive(Debug)]
    struct Widths;

    impl ParseCallbacks for Widths {
        fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
            Some(if name.starts_with("FI_E") { IntKind::I32 } else { IntKind::U64 })
        }
    }

    pub(super) fn run() {
        let mut builder = bindgen::Builder::default()
            .header("wrapper.h")
            .parse_callbacks(Box::new(Widths))
            .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
            .default_enum_style(bindgen::EnumVariation::Consts)
            .prepend_enum_name(false)
            .layout_tests(true)
            .generate_comments(false)
            .derive_debug(false)
            .opaque_type("fi_ops_(atomic|tagged|collective|eq|cntr)")
            .blocklist_type("iovec|__ssize_t|ssize_t|pid_t")
            .raw_line("#[allow(unused_imports)]\nuse libc::{iovec, ssize_t};")
            .formatter(bindgen::Formatter::Prettyplease);
        for t in TYPES {
            builder = builder.allowlist_type(t);
        }
        for f in FUNCTIONS {
            builder = builder.allowlist_function(f);
        }
        for v in VARIABLES {
            builder = builder.allowlist_var(v);
        }
        let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
        let written = match builder.generate() {
            Ok(bindings) => bindings.write_to_file(out.join("bindings.rs")).map_err(|e| e.to_string()),
            Err(e) => Err(format!("{e}; are libfabric-dev and libclang-dev installed?")),
        };
        if let Err(e) = written {
            println!("cargo::error=libfabric bindings: {e}");
        }
    }
}
