//! With the `bindgen` feature: generates the bindings anew from the headers installed on this machine.
//! `ci/bindings` compares them with the committed ones.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=wrapper.h");
    println!("cargo:rerun-if-changed=verbs.h");
    #[cfg(feature = "bindgen")]
    generate::run();
}

#[cfg(feature = "bindgen")]
mod generate {
    use bindgen::Builder;
    use bindgen::callbacks::{IntKind, ParseCallbacks};
    use std::path::Path;

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
        "FI_(MSG|RMA|SEND|RECV|READ|WRITE|REMOTE_READ|REMOTE_WRITE|REMOTE_CQ_DATA|TRANSMIT|COMPLETION|INJECT|DELIVERY_COMPLETE|HMEM)",
        "FI_(CONTEXT|CONTEXT2|BUFFERED_RECV|RX_CQ_DATA|SOURCE|LOCAL_COMM|REMOTE_COMM)",
        "FI_MR_(LOCAL|VIRT_ADDR|ALLOCATED|PROV_KEY|ENDPOINT|HMEM)",
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

    /// What reliable connected queue pairs with a shared receive queue need, and a datagram queue pair beside them.
    const VERBS_TYPES: &[&str] = &[
        "ibv_(access_flags|qp_type|qp_state|qp_attr_mask|wr_opcode|send_flags|wc_status|wc_opcode|wc_flags|mtu)",
        "ibv_(event_type|port_state|srq_init_attr|recv_wr|send_wr|sge|grh|gid|wc|qp_attr|qp_init_attr|ah_attr)",
        "ibv_(port_attr|device_attr|async_event|context|qp|srq|cq|mr|pd|ah|comp_channel)",
    ];
    const VERBS_FUNCTIONS: &[&str] = &[
        "ibv_(get_device_list|free_device_list|get_device_name|open_device|close_device)",
        "ibv_(query_device|query_port|query_gid|alloc_pd|dealloc_pd|reg_mr|reg_dmabuf_mr|dereg_mr)",
        "ibv_(create|destroy)_(comp_channel|cq|srq|qp|ah)",
        "ibv_(modify_qp|get_cq_event|ack_cq_events|get_async_event|ack_async_event|wc_status_str|event_type_str)",
    ];
    const VERBS_VARIABLES: &[&str] = &["IBV_LINK_LAYER_.*"];

    pub(super) fn run() {
        let Some(out) = std::env::var_os("OUT_DIR") else { return };
        let out = Path::new(&out);
        let libfabric = builder("wrapper.h")
            .parse_callbacks(Box::new(Widths))
            .opaque_type("fi_ops_(atomic|tagged|collective|eq|cntr)")
            .blocklist_type("iovec|__ssize_t|ssize_t|pid_t")
            .raw_line("#[allow(unused_imports)]\nuse libc::{iovec, ssize_t};");
        generate(libfabric, (TYPES, FUNCTIONS, VARIABLES), "libfabric-dev")
            .and_then(|text| save(&out.join("bindings.rs"), &text));
        let verbs = builder("verbs.h")
            .opaque_type(
                "_ibv_device_ops|_compat_ibv_port_attr|ibv_(mw|mw_bind|mw_type|xrcd|wq|flow|flow_attr)",
            )
            .blocklist_type("pthread_(mutex|cond)_t")
            .raw_line("use libc::{pthread_cond_t, pthread_mutex_t};");
        // Some of these hold mutexes, whose size differs between processors.
        let layouts = "const _: () = {";
        generate(verbs, (VERBS_TYPES, VERBS_FUNCTIONS, VERBS_VARIABLES), "libibverbs-dev")
            .map(|text| text.replace(layouts, &format!("#[cfg(target_arch = \"x86_64\")]\n{layouts}")))
            .and_then(|text| save(&out.join("verbs.rs"), &text));
    }

    fn builder(header: &str) -> Builder {
        Builder::default()
            .header(header)
            .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
            .default_enum_style(bindgen::EnumVariation::Consts)
            .prepend_enum_name(false)
            .layout_tests(true)
            .generate_comments(false)
            .derive_debug(false)
            .formatter(bindgen::Formatter::Prettyplease)
    }

    /// Types, functions and variables, each as patterns of names.
    type Wanted = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

    fn generate(
        mut builder: Builder,
        (types, functions, variables): Wanted,
        package: &str,
    ) -> Option<String> {
        for t in types {
            builder = builder.allowlist_type(t);
        }
        for f in functions {
            builder = builder.allowlist_function(f);
        }
        for v in variables {
            builder = builder.allowlist_var(v);
        }
        let made = builder.generate().map(|bindings| bindings.to_string());
        made.inspect_err(|e| {
            println!("cargo::error=bindings: {e}; are {package} and libclang-dev installed?")
        })
        .ok()
    }

    fn save(file: &Path, text: &str) -> Option<()> {
        std::fs::write(file, text).inspect_err(|e| println!("cargo::error=bindings: {e}")).ok()
    }
}
