//! `circulant schedule`, run as a user runs it.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use circulant::schedule::{Circulant, check};
use serde_json::{Value, json};

fn schedule(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_circulant"));
    command.arg("schedule").args(args.split_whitespace()).stdin(Stdio::null());
    command
}

fn output(args: &str) -> Output {
    schedule(args).output().unwrap()
}

fn text(args: &str) -> String {
    let output = output(args);
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn parsed(args: &str) -> Value {
    serde_json::from_str(&text(args)).unwrap()
}

fn rows(table: &Value) -> Vec<Vec<i8>> {
    serde_json::from_value(table.clone()).unwrap()
}

#[test]
fn json_holds_a_correct_schedule() {
    for p in [1, 2, 3, 9, 20, 33, 100, 1152] {
        let all = parsed(&format!("-p {p} --format json"));
        let c = Circulant::new(p);
        let (recv, send) = (rows(&all["recv"]), rows(&all["send"]));
        assert_eq!((recv.len(), send.len()), (p as usize, p as usize));
        check(p, |r| &recv[r as usize], |r| &send[r as usize]).unwrap();
        let base: Vec<u32> = (0..p).map(|r| c.base(r)).collect();
        assert_eq!(
            all,
            json!({"p": p, "q": c.q(), "root": 0, "skips": c.skips(), "base": base, "recv": recv, "send": send})
        );
        for r in [0, p / 2, p - 1] {
            let i = r as usize;
            assert_eq!(
                parsed(&format!("-p {p} --rank {r} --format json")),
                json!({"p": p, "q": c.q(), "root": 0, "skips": c.skips(), "rank": r, "base": base[i], "recv": recv[i], "send": send[i]})
            );
        }
    }
    assert_eq!(
        text("-p 1 --format json"),
        "{\"p\":1,\"q\":0,\"root\":0,\"skips\":[1],\"base\":[0],\"recv\":[[]],\"send\":[[]]}\n"
    );
}

#[test]
fn csv_holds_the_same_numbers() {
    let csv = text("-p 33 --format csv");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next().unwrap(),
        "rank,base,recv0,recv1,recv2,recv3,recv4,recv5,send0,send1,send2,send3,send4,send5"
    );
    let c = Circulant::new(33);
    for r in 0..33 {
        let line = lines.next().unwrap();
        let numbers: Vec<i64> = line.split(',').map(|x| x.parse().unwrap()).collect();
        let entries: Vec<i64> = c.recv(r).iter().chain(c.send(r).iter()).map(|&x| x.into()).collect();
        assert_eq!(numbers[..2], [i64::from(r), i64::from(c.base(r))]);
        assert_eq!(numbers[2..], entries);
        assert_eq!(text(&format!("-p 33 --rank {r} --format csv")).lines().nth(1), Some(line));
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn the_table_is_the_papers() {
    let table = text("-p 20");
    let line = |head: &str| {
        let line = table.lines().find(|line| line.starts_with(head)).unwrap();
        line[head.len()..].replace('|', " ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("base"), "5 0 1 2 0 3 0 1 2 0 4 0 1 2 0 3 0 1 2 0");
    assert_eq!(line("recv 2"), "-4 -4 -3 2 0 -4 -4 -3 -2 -2 -4 -4 -3 -1 -1 -4 -4 -3 -2 -2");
    assert_eq!(line("send 3"), "3 0 1 2 0 -2 -2 -2 -2 -2 -1 -1 -1 -1 -1 -2 -2 -2 -2 -2");
    for p in [1, 2, 3, 20, 40, 41, 1152] {
        let table = text(&format!("-p {p}"));
        let mut widths = table.lines().skip(2).map(|line| line.trim_end().len()).collect::<Vec<_>>();
        // All lines but a long table's heading end in the same column.
        widths.sort_unstable();
        assert_eq!(widths.last(), widths.get(1), "p = {p}:\n{table}");
    }
    assert!(text("-p 1152").lines().any(|line| line.starts_with("1151 ")));
    assert!(text("-p 9 --rank 5").contains("    3    5 |    3    0 |   -1    1\n"));
}

/// With another root each rank has the schedule of its distance from it, and partners as they are called.
#[test]
fn a_root_shifts_the_ranks() {
    for (p, root) in [(9, 4), (20, 19), (33, 1), (1, 0)] {
        let c = Circulant::new(p);
        let all = parsed(&format!("-p {p} --root {root} --format json"));
        assert_eq!(all["root"], root);
        let (recv, send) = (rows(&all["recv"]), rows(&all["send"]));
        for rank in 0..p {
            let distance = (rank + p - root) % p;
            assert_eq!(recv[rank as usize], c.recv(distance)[..]);
            assert_eq!(send[rank as usize], c.send(distance)[..]);
            assert_eq!(all["base"][rank as usize], c.base(distance));
            let table = text(&format!("-p {p} --root {root} --rank {rank}"));
            for k in 0..c.q() {
                let partners = [c.from(distance, k), c.to(distance, k)].map(|d| (d + root) % p);
                let line =
                    table.lines().find(|l| l.split_whitespace().next() == Some(&k.to_string())).unwrap();
                let words: Vec<&str> =
                    line.split('|').filter_map(|part| part.split_whitespace().last()).collect();
                assert_eq!(words[1..], partners.map(|r| r.to_string()), "{table}");
            }
        }
    }
    // The root's own column stands under its number, and so do the bars before the skips.
    let table = text("-p 9 --root 4");
    assert!(table.starts_with("p = 9, q = 4, root 4, skips 1 2 3 5 9\n"), "{table}");
    let bases = table.lines().find(|l| l.starts_with("base")).unwrap().replace('|', " ");
    assert_eq!(bases.split_whitespace().nth(1 + 4), Some("4"));
}

#[test]
fn bad_arguments_are_told() {
    for (args, told) in [
        ("-p 0", "0 is not in 1..=2147483647"),
        ("-p 2147483648", "2147483648 is not in 1..=2147483647"),
        ("-p many", "invalid value 'many'"),
        ("", "-p <P>"),
        ("-p 20 --rank 20", "there is no rank 20 among 20 ranks; give --rank 0 to 19"),
        ("-p 20 --root 20", "there is no rank 20 among 20 ranks; give --root 0 to 19"),
        ("-p 20 --format xml", "possible values: table, json, csv"),
    ] {
        let output = output(args);
        assert!(!output.status.success(), "{args}");
        assert!(output.stdout.is_empty(), "{args}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(told), "{args}: {stderr}");
    }
}

/// The largest tables there are: the output starts at once, in little memory, and a reader that has
/// enough ends it without a word.
#[test]
fn a_huge_table_streams_and_can_be_cut_short() {
    for format in ["table", "json", "csv"] {
        let mut child = schedule(&format!("-p 2147483647 --format {format}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut vec![0; 1 << 20]).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        drop(stdout);
        let deadline = Instant::now() + Duration::from_secs(30);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let end = child.wait_with_output().unwrap();
        assert!(end.status.success() && end.stderr.is_empty(), "{format}: {end:?}");
        assert!(kilobytes < 64 << 10, "{format}: {kilobytes} kB");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = schedule("-p 20").stdout(full).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"));
}
