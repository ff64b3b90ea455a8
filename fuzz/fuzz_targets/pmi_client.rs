//! A launcher that says anything to a rank, over its socket and (after the first byte 0xFF) over the side channel, and
//! hangs up.
#![no_main]

use circulant::launch::Launch;
use circulant::launch::pmi1::Pmi1;
use libfuzzer_sys::fuzz_target;
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let timeout = Duration::from_secs(5);
    let at = data.iter().position(|b| *b == 0xFF);
    let (said, aside) = at.map_or((data, &data[..0]), |at| (&data[..at], &data[at + 1..]));
    // What does not fit into a socket's buffer would wait for a reader.
    if said.len() > 60_000 || aside.len() > 60_000 {
        return;
    }
    let (Ok((ours, mut theirs)), Ok((side, mut other))) = (UnixStream::pair(), UnixStream::pair()) else {
        return;
    };
    let sent = theirs.write_all(said).and_then(|()| theirs.shutdown(Shutdown::Write));
    let sent = sent.and_then(|()| other.write_all(aside)).and_then(|()| other.shutdown(Shutdown::Write));
    if sent.is_err() {
        return;
    }
    let name = format!("{}:job", side.as_raw_fd());
    let Ok(mut me) = Pmi1::over_socket(ours, 0, 3, Some(&name), timeout) else { return };
    if let Some(nodes) = me.nodes() {
        assert_eq!(nodes.len(), 3);
    }
    let _ = me.put("key", b"xyz");
    let _ = me.fence(timeout);
    let _ = me.get("key");
    while me.gone().is_some() {}
    let _ = me.finalize();
});
