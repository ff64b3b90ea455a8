//! An endpoint that cannot be closed.

use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const INSIDE: &str = "CLOSING_TEST_INSIDE";

/// finalize could not close the endpoint, and returns an error; what another thread has lent meanwhile must not be given back.
/// In a process of its own, since it ends it.
#[test]
fn what_is_lent_is_not_given_back_where_the_endpoint_stays_open() {
    if std::env::var_os(INSIDE).is_some() {
        let (arena, faults) = (Arena::default(), sim::Faults { unclosable: true, ..sim::Faults::default() });
        let flow = Flow {
            window: 1000,
            acknowledged: 1000,
            bandwidth_bound: u64::MAX,
            order_timeout: Duration::from_millis(1),
        };
        let mut engine = engines_on(1, flow, &faults, true).remove(0);
        let mut mine = [0u8; 100];
        let given_back =
            lend(&mut engine, &arena, Loan::Unique { bytes: &mut mine, fill: false }, |engine, _| {
                Err::<(), _>(engine.close().expect_err("it cannot be closed"))
            });
        eprintln!("given back: {given_back:?}");
        return;
    }
    let me = std::env::current_exe().unwrap();
    let test = "engine::tests::closing::what_is_lent_is_not_given_back_where_the_endpoint_stays_open";
    let out = Command::new(me).args(["--exact", "--nocapture", test]).env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!said.contains("given back"), "{said}");
    assert_eq!(out.status.signal(), Some(6), "{said}");
    assert!(said.contains("aborting to protect borrowed memory"), "{said}");
}

/// Where nothing is lent finalize returns its error, and the program goes on.
#[test]
fn an_endpoint_that_cannot_be_closed_is_an_error() {
    let flow = Flow {
        window: 1000,
        acknowledged: 1000,
        bandwidth_bound: u64::MAX,
        order_timeout: Duration::from_millis(1),
    };
    let faults = sim::Faults { unclosable: true, ..sim::Faults::default() };
    let mut engine = engines_on(1, flow, &faults, true).remove(0);
    let e = engine.close().expect_err("it cannot be closed");
    assert_eq!(e.kind(), ErrorKind::Transport);
    engine.vanish();
    drop(engine);
}
