//! A life over PMI-1 against what a launcher says.

use super::*;
use proptest::prelude::*;
use std::io::{Read, Write};

const ANSWERS: [&str; 8] = [
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0",
    "cmd=my_kvsname kvsname=job rc=0",
    "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))",
    "cmd=put_result rc=0",
    "cmd=barrier_out rc=0",
    "cmd=get_result rc=0 value=1.eHl6",
    "cmd=finalize_ack rc=0",
];

/// A whole life against a launcher that says these bytes and hangs up; how far it came.
fn live(said: &[u8]) -> Result<()> {
    let (ours, mut theirs) = UnixStream::pair()?;
    theirs.write_all(said)?;
    theirs.shutdown(std::net::Shutdown::Write)?;
    let timeout = Duration::from_secs(5);
    let mut me = Pmi1::over_socket(ours, 0, 2, None, timeout)?;
    assert_eq!(me.nodes(), Some(vec![0, 1]));
    me.put("key", b"xyz")?;
    me.fence(timeout)?;
    assert_eq!(me.get("key")?, b"xyz");
    me.finalize()
}

fn text(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|l| [l.as_bytes(), b"\n"].concat()).collect()
}

#[test]
fn a_life() {
    live(&text(&ANSWERS)).unwrap();
    for end in 0..ANSWERS.len() {
        let error = live(&text(&ANSWERS[..end])).unwrap_err().to_string();
        assert!(error.contains("closed the connection"), "{error}");
    }
    let error = live(b"cmd=response_to_init rc=-1\n").unwrap_err().to_string();
    assert!(error.contains("does not speak PMI-1: \"cmd=response_to_init rc=-1\""), "{error}");
    let mut lines = ANSWERS;
    lines[4] = "cmd=put_result rc=-1 msg=no";
    assert!(live(&text(&lines)).unwrap_err().to_string().contains("msg=no"));
    lines = ANSWERS;
    lines[6] = "cmd=get_result rc=-1 value=unknown";
    assert!(live(&text(&lines)).unwrap_err().to_string().contains("nothing under the key"));
}

/// The fence is asked while others have not come, and when the launcher is gone.
#[test]
fn a_fence_is_asked() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&text(&ANSWERS[..4])).unwrap();
    let mut me = Pmi1::over_socket(ours, 0, 2, None, Duration::from_secs(5)).unwrap();
    assert_eq!(me.test_fence().unwrap_err().kind(), ErrorKind::Argument, "none was begun");
    assert!(me.start_fence().unwrap());
    assert!(!me.test_fence().unwrap());
    let (first, second) = ANSWERS[5].split_at(7);
    theirs.write_all(first.as_bytes()).unwrap();
    assert!(!me.test_fence().unwrap(), "half a line");
    theirs.write_all(second.as_bytes()).unwrap();
    assert!(!me.test_fence().unwrap(), "a line without its end");
    theirs.write_all(b"\n").unwrap();
    assert!(me.test_fence().unwrap());
    assert!(me.start_fence().unwrap());
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    let e = me.test_fence().unwrap_err().to_string();
    assert!(e.contains("closed the connection"), "{e}");
    assert!(me.test_fence().is_err() && me.start_fence().is_err());
}

/// A launcher that closes the connection after a finalize must not get one between two worlds.
#[test]
fn a_foreign_launcher_is_not_told_of_the_end_of_a_world() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&text(&ANSWERS[..4])).unwrap();
    let mut me = Pmi1::over_socket(ours, 0, 2, None, Duration::from_secs(5)).unwrap();
    assert!(!me.leave().unwrap());
    theirs.write_all(&text(&[ANSWERS[4], "cmd=put_result rc=-1 msg=no"])).unwrap();
    me.put("2_a", b"x").unwrap();
    assert!(me.put("2_a", b"x").is_err() && !me.leave().unwrap(), "of use all the same");
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(me.fence(Duration::from_secs(5)).is_err() && me.leave().is_err());
    let mut asked = Vec::new();
    drop(me);
    theirs.read_to_end(&mut asked).unwrap();
    assert!(!String::from_utf8(asked).unwrap().contains("finalize"));
}

#[test]
fn ranks_beyond_the_size_are_refused() {
    for (rank, size) in [(0, 0), (2, 2), (0, usize::MAX)] {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(Pmi1::over_socket(ours, rank, size, None, Duration::from_secs(5)).is_err());
    }
}

proptest! {
    /// Spoilt answers are errors, never a panic or a wait.
    #[test]
    fn spoilt(which in 0..ANSWERS.len(), at in 0usize..60, byte in any::<u8>(), cut in any::<bool>()) {
        let mut lines: Vec<Vec<u8>> = ANSWERS.iter().map(|l| l.as_bytes().to_vec()).collect();
        let at = at % lines[which].len();
        if cut {
            lines[which].truncate(at);
        } else {
            lines[which][at] = byte;
        }
        let said: Vec<u8> = lines.iter().flat_map(|l| [&l[..], b"\n"].concat()).collect();
        // The two values that `live` looks at may be spoilt into other good ones.
        if which != 3 && which != 6 {
            let _ = live(&said);
        }
    }

    #[test]
    fn any_bytes(said in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(live(&said).is_err());
    }
}

/// Rank 0 of two in a fence, the launcher's end of its connection, and the end on which the launcher tells of deaths.
fn in_a_fence() -> (Pmi1, UnixStream, UnixStream) {
    use std::os::fd::IntoRawFd;
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (side, says) = UnixStream::pair().unwrap();
    theirs.write_all(&text(&ANSWERS[..4])).unwrap();
    let side = format!("{}:job", side.into_raw_fd());
    let mut me = Pmi1::over_socket(ours, 0, 2, Some(&side), Duration::from_secs(5)).unwrap();
    assert!(me.start_fence().unwrap());
    (me, theirs, says)
}

/// The launcher says that the fence is over, and then that a rank has gone which had passed it: that is no failure of the fence.
#[test]
fn a_rank_that_goes_after_a_fence_fails_it_for_none() {
    for round in 0..300 {
        let (mut me, mut theirs, mut says) = in_a_fence();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                theirs.write_all(&text(&ANSWERS[5..6])).unwrap();
                says.write_all(b"gone 1 killed by signal 9\n").unwrap();
            });
            while !me.test_fence().unwrap_or_else(|e| panic!("round {round}: {e}")) {}
        });
        assert_eq!(me.gone().map(|gone| gone.rank), Some(1), "round {round}");
    }
}

/// Where a rank goes that had not come to the fence, the others that go on can leave; whether its end comes all the same or not.
#[test]
fn a_rank_leaves_after_a_fence_that_was_lost() {
    for late in [false, true] {
        let (mut me, mut theirs, mut says) = in_a_fence();
        says.write_all(b"gone 1 killed by signal 9\n").unwrap();
        assert_eq!(me.test_fence().unwrap_err().kind(), ErrorKind::PeerLost);
        assert!(me.start_fence().is_err() && me.put("key", b"x").is_err(), "of no other use");
        if late {
            theirs.write_all(&text(&ANSWERS[5..6])).unwrap();
        }
        theirs.write_all(&text(&ANSWERS[7..])).unwrap();
        me.finalize().unwrap();
    }
}

/// Only `circulant run` is told that a value is for ranks of a node alone, and only where it has put these there.
#[test]
fn a_value_stays_on_its_node() {
    use std::os::fd::IntoRawFd;
    for (space, local) in [("job", 1), ("another", 0)] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (side, _says) = UnixStream::pair().unwrap();
        theirs.write_all(&text(&ANSWERS[..4])).unwrap();
        theirs.write_all(&text(&[ANSWERS[4]; 3])).unwrap();
        let side = format!("{}:{space}", side.into_raw_fd());
        let mut me = Pmi1::over_socket(ours, 0, 2, Some(&side), Duration::from_secs(5)).unwrap();
        me.put_for("near", b"x", &[0]).unwrap();
        me.put_for("far", b"x", &[0, 1]).unwrap();
        me.put("all", b"x").unwrap();
        drop(me);
        let mut asked = String::new();
        theirs.read_to_string(&mut asked).unwrap();
        assert_eq!(asked.matches("cmd=put ").count(), 3, "{asked}");
        assert_eq!(asked.matches(" scope=local ").count(), local, "{asked}");
        assert_eq!(asked.matches("key=circulant-near scope=local value=").count(), local, "{asked}");
    }
}
