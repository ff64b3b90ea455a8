//! Which node reaches which: plain TCP connections between one rank of each node, to all addresses.

use super::node::Node;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Up to this many nodes each tries all others.
pub(super) const ALL: usize = 16;

/// What came of trying an address of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reached {
    /// The node, by its place.
    pub(super) node: usize,
    pub(super) ip: IpAddr,
    /// Microseconds until it answered, or why it did not.
    pub(super) outcome: Result<f64, String>,
}

/// The nodes that node `i` of `n` tries: all others, or those at distances 1, 2, 4, … ahead.
pub(super) fn targets(i: usize, n: usize) -> Vec<usize> {
    if n <= ALL {
        return (0..n).filter(|j| *j != i).collect();
    }
    let distances = std::iter::successors(Some(1usize), |d| d.checked_mul(2)).take_while(|d| *d < n);
    distances.map(|d| (i + d) % n).collect()
}

/// Tells its rank to all that connect, until it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    port: u16,
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Listener {
    /// On all addresses of this node; `None` when the system refuses.
    pub(super) fn open(rank: usize) -> Option<Self> {
        // Both families where there is the newer one.
        let any = |ip: IpAddr| TcpListener::bind(SocketAddr::new(ip, 0));
        let listener = any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any([0, 0, 0, 0].into())).ok()?;
        listener.set_nonblocking(true).ok()?;
        let port = listener.local_addr().ok()?.port();
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        let body = move || {
            while !flag.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        // A few bytes find room in the socket; a peer that does not read them is none of ours.
                        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
                        let _ = stream.write_all(&greeting(rank));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        };
        let thread = thread::Builder::new().name("listen".to_owned()).spawn(body).ok()?;
        Some(Self { port, over, thread: Some(thread) })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn greeting(rank: usize) -> [u8; 16] {
    let mut all = *b"circulant-------";
    all[8..].copy_from_slice(&(rank as u64).to_le_bytes());
    all
}

/// A node to try: its place, its rank that listens, whether it shares our space of networks, and what it is like.
pub(super) type Target = (usize, usize, bool, Node);

/// Tries all usable addresses of these nodes, all at the same time. From `own` come addresses of ours: one that
/// another node has as well leads to ourselves.
pub(super) fn try_all(own: &Node, nodes: Vec<Target>, timeout: Duration) -> Vec<Reached> {
    let mut tries = Vec::new();
    for (node, leader, near, about) in nodes {
        let Some(port) = about.port else { continue };
        for a in about.usable() {
            let ours = !near && own.addresses.iter().any(|o| o.ip == a.ip);
            tries.push((node, leader, a.ip, port, ours));
        }
        // In one space of networks there may be no other.
        if near {
            tries.push((node, leader, IpAddr::from([127, 0, 0, 1]), port, false));
        }
    }
    let mut reached = Vec::new();
    // This many threads at once; a try takes its timeout at most.
    for some in tries.chunks(64) {
        thread::scope(|scope| {
            let one = |&(node, leader, ip, port, ours): &(usize, usize, IpAddr, u16, bool)| {
                let outcome = match ours {
                    true => Err("this node has the same address".to_owned()),
                    false => attempt(SocketAddr::new(ip, port), leader, timeout),
                };
                Reached { node, ip, outcome }
            };
            let threads: Vec<_> = some.iter().map(|t| scope.spawn(move || one(t))).collect();
            // One that panics has nothing to tell.
            reached.extend(threads.into_iter().filter_map(|t| t.join().ok()));
        });
    }
    reached
}

fn attempt(to: SocketAddr, leader: usize, timeout: Duration) -> Result<f64, String> {
    let timeout = timeout.max(Duration::from_millis(10));
    let told = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => {
            format!("no answer within {} s", timeout.as_secs_f64())
        }
        std::io::ErrorKind::UnexpectedEof => "something else listens there".to_owned(),
        _ => e.to_string().split(" (os error").next().unwrap_or_default().to_lowercase(),
    };
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&to, timeout).map_err(told)?;
    stream.set_read_timeout(Some(timeout)).map_err(told)?;
    let mut said = [0; 16];
    stream.read_exact(&mut said).map_err(told)?;
    match said == greeting(leader) {
        true => Ok(begun.elapsed().as_secs_f64() * 1e6),
        false => Err("another rank answers there".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_nodes_try_all_and_many_some() {
        assert_eq!(targets(1, 3), [0, 2]);
        assert_eq!(targets(0, 1), [0usize; 0]);
        assert_eq!(targets(15, 20), [16, 17, 19, 3, 11]);
        assert!((17..300).all(|n| (0..n).all(|i| targets(i, n).len() <= 9 && !targets(i, n).contains(&i))));
    }

    #[test]
    fn the_rank_that_answers_is_checked() {
        let listener = Listener::open(7).unwrap();
        let here = SocketAddr::new([127, 0, 0, 1].into(), listener.port());
        let timeout = Duration::from_secs(5);
        assert!(attempt(here, 7, timeout).unwrap() > 0.0);
        assert_eq!(attempt(here, 8, timeout), Err("another rank answers there".to_owned()));
        drop(listener);
        assert!(attempt(here, 7, timeout).is_err());
        // One that takes connections and says nothing.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let e = attempt(mute.local_addr().unwrap(), 7, Duration::from_millis(50)).unwrap_err();
        assert!(e.contains("no answer"), "{e}");
    }
}
