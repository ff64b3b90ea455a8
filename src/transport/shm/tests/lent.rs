//! Bytes that one endpoint lends and another reads where they lie.

use super::{LEN, Rank, ranks};
use crate::error::ErrorKind;
use crate::transport::{Access, Lent, Transport};

/// Reads `len` bytes that the first rank lends, at the second.
fn fetch(ranks: &mut [Rank], lent: Lent, at: usize, len: usize) -> crate::Result<Vec<u8>> {
    let mut out = vec![0; len];
    ranks[1].wire.fetch(10, lent, at, (&mut out, 0)).map(|()| out)
}

#[test]
fn what_is_lent_is_read_where_it_lies() {
    let mut ranks = ranks(2);
    for (i, byte) in (0..251).cycle().zip(ranks[0].map.iter_mut()) {
        *byte = i;
    }
    for (at, len) in [(0, 1), (1000, 3000), (LEN - 7, 7), (0, LEN)] {
        let (wire, map) = (&ranks[0].wire, &ranks[0].map);
        let lent = wire.lend(&map[at..at + len]).expect("it lies in shared memory");
        let expected = map[at..at + len].to_vec();
        assert!(fetch(&mut ranks, lent, 0, len).unwrap() == expected, "{len} bytes at {at}");
        assert!(fetch(&mut ranks, lent, len / 2, len - len / 2).unwrap() == expected[len / 2..]);
    }
}

/// Only what lies in one shared range, and only as long as that is registered.
#[test]
fn what_peers_cannot_map_is_not_lent() {
    let mut ranks = ranks(2);
    let mut plain = vec![1u8; 5000];
    let wire = &mut ranks[0].wire;
    assert_eq!(wire.lend(&plain), None);
    // SAFETY: the vector outlives its registration, and only this thread touches it.
    let (registration, _) = unsafe { wire.register(plain.as_mut_ptr(), 5000, Access::Target) }.unwrap();
    assert_eq!(wire.lend(&plain), None, "registered, but memory of its own");
    wire.deregister(registration).unwrap();
    let (file, map) = wire.share(8192).unwrap();
    // SAFETY: a mapping of that length, which lives to the end of the test.
    let bytes = unsafe { std::slice::from_raw_parts(map.as_mut_ptr(), 8192) };
    assert_eq!(wire.lend(bytes), None, "not registered");
    // SAFETY: as above; peers do not put there.
    let (registration, _) = unsafe { wire.register_shared(map.as_mut_ptr(), 4096, file) }.unwrap();
    assert!(wire.lend(&bytes[..4096]).is_some() && wire.lend(&bytes[4095..4096]).is_some());
    assert_eq!([wire.lend(bytes), wire.lend(&bytes[4000..4097])], [None; 2], "it ends behind the range");
    wire.deregister(registration).unwrap();
    assert_eq!(wire.lend(&bytes[..10]), None);
    let (registration, map) = (ranks[0].registration, &ranks[0].map);
    assert!(ranks[0].wire.lend(map).is_some(), "that of another range");
    ranks[0].wire.deregister(registration).unwrap();
    assert_eq!(ranks[0].wire.lend(&ranks[0].map), None);
}

/// Any memory of a process, where the kernel lets its peer read it.
#[test]
#[cfg_attr(miri, ignore = "Miri does not know the system call")]
fn what_is_not_shared_is_read_by_its_address() {
    let mut ranks = ranks(2);
    assert!(ranks[1].wire.reads_memory_of(10), "a process may read its own memory");
    assert!(!ranks[1].wire.reads_memory_of(12), "there is no such rank");
    let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251).to_le_bytes()[0]).collect();
    for (at, len) in [(0, 1), (4095, 2), (1, 19_999)] {
        let lent = Lent::unmapped(&bytes[at..at + len]);
        assert!(fetch(&mut ranks, lent, 0, len).unwrap() == bytes[at..at + len], "{len} bytes at {at}");
        assert!(fetch(&mut ranks, lent, len / 2, len - len / 2).unwrap() == bytes[at + len / 2..at + len]);
    }
    assert_eq!(fetch(&mut ranks, Lent::unmapped(&[]), 0, 0).unwrap(), []);
    // No memory at all, and memory that ends too early: the last page of the address space is the kernel's.
    for at in [0, u64::MAX, 0x7fff_ffff_f000 - 5] {
        let e = fetch(&mut ranks, Lent { at, ..Lent::unmapped(&bytes) }, 0, 10).unwrap_err();
        assert_eq!((e.kind(), e.peer()), (ErrorKind::Transport, Some(10)), "{at:#x}: {e}");
    }
    ranks[0].wire.close().unwrap();
    let e = fetch(&mut ranks, Lent::unmapped(&bytes), 0, 10).unwrap_err();
    assert_eq!((e.kind(), e.peer()), (ErrorKind::PeerLost, Some(10)), "{e}");
}

#[test]
fn wrong_places_and_peers_are_errors() {
    let mut ranks = ranks(2);
    let lent = ranks[0].wire.lend(&ranks[0].map).unwrap();
    for wrong in [
        Lent { at: LEN as u64 - 9, ..lent },
        Lent { at: u64::MAX, ..lent },
        Lent { chunk: u32::MAX, ..lent },
        Lent { chunk: lent.chunk + 1, fd: u32::MAX, ..lent },
        Lent { chunk: lent.chunk + 2, fd: 0, ..lent },
    ] {
        let e = fetch(&mut ranks, wrong, 0, 10).unwrap_err();
        // A descriptor that there is not is what an ended process leaves. (Under Miri memory of the heap stands for files.)
        let kind =
            if wrong.fd == u32::MAX && !cfg!(miri) { ErrorKind::PeerLost } else { ErrorKind::Transport };
        assert_eq!((e.kind(), e.peer()), (kind, Some(10)), "{wrong:?}: {e}");
    }
    assert_eq!(fetch(&mut ranks, lent, LEN - 10, 10).unwrap(), [0; 10]);
    let e = ranks[1].wire.fetch(11, lent, 0, (&mut [0], 0)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Argument, "{e}");
    // What is read of a peer that has closed may be anything.
    ranks[0].wire.close().unwrap();
    let e = fetch(&mut ranks, lent, 0, 10).unwrap_err();
    assert_eq!((e.kind(), e.peer()), (ErrorKind::PeerLost, Some(10)), "{e}");
    assert!(e.to_string().contains("has closed"), "{e}");
}
