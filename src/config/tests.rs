use super::*;
use crate::error::ErrorKind;

#[test]
fn sizes() {
    assert_eq!(parse_bytes("0"), Some(0));
    assert_eq!(parse_bytes("64K"), Some(64_000));
    assert_eq!(parse_bytes("1Mi"), Some(1 << 20));
    assert_eq!(parse_bytes("4GiB"), Some(4 << 30));
    for bad in ["", "K", "1.5M", "-1", "1X", "99999999999999999999", "99999999999G"] {
        assert_eq!(parse_bytes(bad), None, "{bad}");
    }
}

/// The default's text, read and written.
#[test]
fn the_table_is_consistent() {
    for (i, s) in SETTINGS.iter().enumerate() {
        assert!(s.variable.starts_with("CIRCULANT_"));
        assert_eq!(s.variable[10..].to_lowercase().replace('_', "-"), s.name);
        assert!(SETTINGS[..i].iter().all(|t| t.name != s.name));
        check_variable(s.variable.as_ref(), s.default.as_ref()).unwrap();
        check_variable(s.variable.as_ref(), "".as_ref()).unwrap_err();
    }
    for (s, text) in Config::defaults().texts() {
        assert_eq!(text, s.default, "{}", s.name);
    }
}

/// The setting `name` after each of `texts`, in canonical form.
fn canonical(name: &str, texts: &[&str]) -> Vec<String> {
    let one = |text: &&str| {
        let mut c = Config::defaults();
        c.set(name, text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let found = c.texts().find(|(s, _)| s.name == name).unwrap().1;
        // What is written is read as the same.
        c.set(name, &found).unwrap();
        assert_eq!(c.texts().find(|(s, _)| s.name == name).unwrap().1, found);
        found
    };
    texts.iter().map(one).collect()
}

#[test]
fn values_have_a_canonical_form() {
    assert_eq!(
        canonical("deadline", &["2.5", "1e8", "0", "1e10", "1e300", "inf"]),
        ["2.5", "100000000", "off", "off", "off", "off"]
    );
    assert_eq!(canonical("window", &["64K", "1Mi", "auto"]), ["64000", "1048576", "auto"]);
    assert_eq!(canonical("blocks", &["007", "auto"]), ["7", "auto"]);
    assert_eq!(canonical("verbs-device", &["mlx5_0:1", "auto"]), ["mlx5_0:1", "auto"]);
    assert_eq!(canonical("verbs-level", &["015", "auto"]), ["15", "auto"]);
    assert_eq!(canonical("verbs-mtu", &["4096", "auto"]), ["4096", "auto"]);
    assert_eq!(canonical("limits", &["none", "no-word, gather=1"]), ["none", "gather=1,no-word"]);
    assert_eq!(canonical("verbs-queue", &["1", "16384", "auto"]), ["1", "16384", "auto"]);
    assert_eq!(canonical("record-events", &["00", "16777216", "auto"]), ["0", "16777216", "auto"]);
    for (name, wrong) in [
        ("limits", "gather=0"),
        ("verbs-level", "16"),
        ("verbs-mtu", "1500"),
        ("verbs-gid", "-1"),
        ("verbs-queue", "0"),
        ("verbs-receives", "16385"),
        ("record-events", "16777217"),
    ] {
        assert!(Config::defaults().set(name, wrong).is_err(), "{name}={wrong}");
    }
    let e = Config::defaults().set("limits", "unordered,gather=0").unwrap_err().to_string();
    assert!(e.contains("CIRCULANT_LIMITS: \"gather=0\" is not gather=N, with N from 1"), "{e}");
    assert_eq!(canonical("taper", &["1", "1:4", "04"]), ["1", "4", "4"]);
    assert_eq!(canonical("groups", &["016"]), ["16"]);
    assert_eq!(canonical("ports", &["20000-20999", " 7 - 7 "]), ["20000-20999", "7-7"]);
    assert_eq!(
        canonical("reproducible", &["1", "true", "yes", "0", "false"]),
        ["yes", "yes", "yes", "no", "no"]
    );
    assert_eq!(
        canonical("rails", &["1", "3", "auto", "eth0, 10.0.0.1"]),
        ["1", "3", "auto", "eth0,10.0.0.1"]
    );
    assert_eq!(
        canonical("log", &["off", "info", "debug, all", "trace,all"]),
        ["off", "info", "debug,all", "trace,all"]
    );
    for (name, words) in [
        ("provider", &["auto", "shm", "tcp", "tcp+shm", "auto+shm", "tcp;ofi_rxm"][..]),
        ("wait", &["auto", "spin", "yield", "block"]),
        ("probe", &["auto", "on", "off"]),
        ("adapt", &["auto", "on", "off"]),
        ("progress", &["calls", "thread"]),
        ("launcher", &["auto", "pmi1", "pmix", "env", "libpmi", "single"]),
        ("sources", &["all", "10.0.0.0/16,10.1.0.7,fd00::/8,::1"]),
        ("tuning", &["none", "a file"]),
        ("groups", &["auto", "none", "16", "a file", "./16"]),
        ("algorithm", &["auto", "bcast=chain"]),
    ] {
        assert_eq!(canonical(name, words), words);
    }
}

#[test]
fn values_have_types() {
    let mut c = Config::defaults();
    assert_eq!((&c.provider, c.wait, c.deadline), (&Provider::Auto, None, None));
    for (name, text) in
        [("provider", "tcp+shm"), ("wait", "block"), ("deadline", "0.25"), ("ports", "7-9"), ("rails", "2")]
    {
        c.set(name, text).unwrap();
    }
    assert_eq!((&c.provider, c.wait), (&Provider::Both("tcp".to_owned()), Some(Wait::Block)));
    assert_eq!((c.deadline, c.ports), (Some(Duration::from_millis(250)), Some((7, 9))));
    assert_eq!(c.rails, Interfaces::Several(Some(2)));
}

#[test]
fn what_is_wrong_is_named_with_what_is_right() {
    for (name, text, words) in [
        (
            "wait",
            "blokc",
            &["CIRCULANT_WAIT: \"blokc\" is not spin, yield, block or auto", "did you mean \"block\"?"][..],
        ),
        ("wait", "x", &["how to wait"]),
        ("sources", "10.0.0.0/33", &["CIRCULANT_SOURCES", "such as 10.0.0.0/16,10.1.0.7"]),
        ("sources", "node1", &["CIRCULANT_SOURCES"]),
        ("launcher", "pmi", &["CIRCULANT_LAUNCHER: \"pmi\"", "did you mean \"pmi1\"?"]),
        ("log", "inof,all", &["CIRCULANT_LOG"]),
        ("log", "warm", &["CIRCULANT_LOG", "did you mean \"warn\"?"]),
        ("log", "info,1", &["CIRCULANT_LOG"]),
        ("groups", "0", &["CIRCULANT_GROUPS: \"0\" is not a number of nodes from 1"]),
        ("groups", "4294967296", &["CIRCULANT_GROUPS"]),
        ("taper", "2:1", &["CIRCULANT_TAPER: \"2:1\" is not a whole number from 1, or 1: and such a number"]),
        ("taper", "0", &["CIRCULANT_TAPER"]),
        ("deadline", "-1", &["CIRCULANT_DEADLINE", "a number of seconds, or off"]),
        ("deadline", "of", &["did you mean \"off\"?"]),
        ("blocks", "0", &["CIRCULANT_BLOCKS", "from 1"]),
        ("window", "wide", &["CIRCULANT_WINDOW", "a size such as 64K or 1Mi"]),
        ("rails", "eth0,", &["CIRCULANT_RAILS"]),
        ("rails", "0", &["CIRCULANT_RAILS"]),
        ("provider", "", &["CIRCULANT_PROVIDER"]),
        ("deadlien", "1", &["there is no setting \"deadlien\"", "did you mean \"deadline\"?"]),
        ("nonsense", "1", &["circulant info lists them"]),
    ] {
        let e = Config::defaults().set(name, text).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        for word in words {
            assert!(e.to_string().contains(word), "{word} is missing in {e}");
        }
    }
    for bad in ["", "7", "0-7", "8-7", "1-65536", "-7", "a-b"] {
        assert!(Config::defaults().set("ports", bad).is_err(), "{bad}");
    }
}

#[test]
fn a_fault_lasts_until_the_setting_has_a_value() {
    let mut c = Config::defaults();
    c.set_deferred("wait", "bogus");
    c.set_deferred("wiat", "spin");
    assert_eq!((c.faults().count(), c.wait), (2, None));
    c.set_deferred("wait", "spin");
    assert_eq!((c.faults().count(), c.wait), (1, Some(Wait::Spin)));
    assert!(c.check().is_err() && c.load().is_err() && c.adopt("").is_err());
}

#[test]
fn rank_0_decides_unless_contradicted() {
    let mut zero = Config::defaults();
    zero.set("blocks", "7").unwrap();
    zero.set("window", "64K").unwrap();
    zero.set("deadline", "3").unwrap();
    let mut other = Config::defaults();
    other.set("window", "64000").unwrap();
    other.adopt(&zero.agreed()).unwrap();
    assert_eq!((other.blocks, other.window, other.deadline), (Some(7), Some(64_000), None));
    other.set("blocks", "8").unwrap();
    let e = other.adopt(&zero.agreed()).unwrap_err();
    assert!(e.to_string().contains("CIRCULANT_BLOCKS is \"7\" at rank 0 and \"8\" here"), "{e}");
}

#[test]
fn rank_0_reads_the_tuning_file_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tuning");
    let mut zero = Config::defaults();
    zero.set("tuning", path.to_str().unwrap()).unwrap();
    let e = zero.load().unwrap_err().to_string();
    assert!(e.contains("CIRCULANT_TUNING") && e.contains("No such file"), "{e}");
    std::fs::write(&path, "# all\n[memory] # here\n\nreduce-ps = 7\n").unwrap();
    zero.load().unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut other = Config::defaults();
    other.adopt(&zero.agreed()).unwrap();
    // Every line keeps its number.
    assert_eq!(other.tuning_text(), "\n[memory]\n\nreduce-ps = 7");
    assert_eq!(other.agreed(), zero.agreed());
    other.set("tuning", "another").unwrap();
    assert!(other.adopt(&zero.agreed()).is_err());
    std::fs::write(&path, vec![b' '; 100_000]).unwrap();
    assert!(zero.load().unwrap_err().to_string().contains("100000 bytes are too many"));
}

#[test]
fn the_file_of_the_selection_is_agreed_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    let mut zero = Config::defaults();
    zero.set("selection", path.to_str().unwrap()).unwrap();
    assert!(zero.load().unwrap_err().to_string().contains("No such file"));
    std::fs::write(&path, "bcast -> chain\n").unwrap();
    zero.load().unwrap();
    let mut other = Config::defaults();
    other.adopt(&zero.agreed()).unwrap();
    assert_eq!(other.selection_text(), "bcast -> chain\n");
    std::fs::write(&path, "bcast -> linear\n").unwrap();
    let e = other.adopt(&zero.agreed()).unwrap_err();
    assert!(e.to_string().contains("another one at rank 0"), "{e}");
}
