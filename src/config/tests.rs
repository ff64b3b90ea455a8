use super::*;

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

#[test]
fn the_table_is_consistent() {
    for (i, s) in SETTINGS.iter().enumerate() {
        assert!(s.variable.starts_with("CIRCULANT_"));
        assert_eq!(s.variable[10..].to_lowercase().replace('_', "-"), s.name);
        assert!(SETTINGS[..i].iter().all(|t| t.name != s.name));
    }
    let mut c = Config::defaults();
    assert!(c.seconds("deadline").is_ok());
    for (text, seconds) in [("2.5", 2.5), ("1e8", 1e8)] {
        c.set("deadline", text).unwrap();
        assert_eq!(c.seconds("deadline").unwrap(), Duration::from_secs_f64(seconds));
    }
    for none in ["off", "0", "1e10", "1e300", "inf"] {
        c.set("deadline", none).unwrap();
        assert_eq!(c.seconds("deadline").unwrap(), FOR_EVER, "{none}");
    }
    c.set("deadline", "-1").unwrap();
    assert!(c.seconds("deadline").unwrap_err().to_string().contains("CIRCULANT_DEADLINE"));
    assert!(c.set("nonsense", "").is_err());
}

#[test]
fn ranges_of_ports() {
    let mut c = Config::defaults();
    assert_eq!(c.range("ports").unwrap(), None);
    for (text, want) in [("20000-20999", (20000, 20999)), (" 7 - 7 ", (7, 7))] {
        c.set("ports", text).unwrap();
        assert_eq!(c.range("ports").unwrap(), Some(want));
    }
    for bad in ["", "7", "0-7", "8-7", "1-65536", "-7", "a-b"] {
        c.set("ports", bad).unwrap();
        assert!(c.range("ports").unwrap_err().to_string().contains("CIRCULANT_PORTS"), "{bad}");
    }
}

#[test]
fn rank_0_decides_unless_contradicted() {
    let mut zero = Config::defaults();
    zero.set("blocks", "7").unwrap();
    zero.set("deadline", "3").unwrap();
    let mut other = Config::defaults();
    other.adopt(&zero.agreed()).unwrap();
    assert_eq!((other.text("blocks"), other.text("deadline")), ("7", "off"));
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
    assert_eq!(other.tuning(), "\n[memory]\n\nreduce-ps = 7");
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
    assert_eq!(other.selection(), "bcast -> chain\n");
    std::fs::write(&path, "bcast -> linear\n").unwrap();
    let e = other.adopt(&zero.agreed()).unwrap_err();
    assert!(e.to_string().contains("another one at rank 0"), "{e}");
    assert!(!zero.switch("reproducible").unwrap());
    zero.set("reproducible", "maybe").unwrap();
    assert!(zero.switch("reproducible").unwrap_err().to_string().contains("yes or no"));
}
