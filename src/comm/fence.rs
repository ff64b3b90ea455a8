//! Waits for the launcher that may last longer than the time after which a wait is told of: they say so, and for which ranks, as far as the
//! launcher tells.

use crate::error::{Error, ErrorKind, Result};
use crate::launch::Launch;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tracing::level_filters::LevelFilter;

/// Ranks that an error or a warning lists, at most. Chosen, as in those of other waits.
const MAX_RANKS_LISTED: usize = 8;
/// How often a fence is asked whether it is over, at a start-up that may last. Chosen: far shorter than such a start-up.
const ASK_INTERVAL: Duration = Duration::from_millis(1);

/// Runs `wait` in this thread, and says `text` of the time since its begin each time that `after` has passed.
pub(super) fn warned<T>(
    after: Duration,
    text: impl Fn(Duration) -> String + Sync,
    wait: impl FnOnce() -> T,
) -> T {
    let (done, ended) = channel::<()>();
    let begun = Instant::now();
    let text = &text;
    let watch = move || {
        while ended.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
            crate::trace::warn(&text(begun.elapsed()), LevelFilter::WARN);
        }
    };
    std::thread::scope(|scope| {
        // Without a thread nothing is said.
        let watching =
            std::thread::Builder::new().name("circulant-waits".to_owned()).spawn_scoped(scope, watch);
        let found = wait();
        drop((done, watching));
        found
    })
}

/// A fence of start-up that says each time that `after` has passed which ranks have not come.
///
/// # Errors
/// As [`Launch::fence`].
pub(super) fn pass(launch: &mut dyn Launch, timeout: Duration, after: Duration) -> Result<()> {
    let rank = launch.rank();
    let said = move |since: Duration, of: &str| {
        format!("start-up waits in a fence of the launcher for {} s{of} (rank {rank} waits)", since.as_secs())
    };
    if !launch.start_fence()? {
        return warned(after, |since| said(since, UNTOLD), || launch.fence(timeout));
    }
    let nodes = launch.nodes();
    let (begun, mut warn_after) = (Instant::now(), after);
    while !launch.test_fence()? {
        let since = begun.elapsed();
        if since >= timeout {
            return Err(late_error(launch.late(), "a fence of start-up"));
        }
        if since >= warn_after {
            warn_after = since + after;
            if let Some(of) = late_ranks(launch.late(), rank, nodes.as_deref()) {
                crate::trace::warn(&said(since, &of), LevelFilter::WARN);
            }
        }
        std::thread::sleep(ASK_INTERVAL);
    }
    Ok(())
}

const UNTOLD: &str = "; the launcher does not tell for which ranks";

/// Of which ranks a warning speaks; `None`: a lower rank of this one's node waits, too, and says it.
pub(super) fn late_ranks(late: Option<Vec<usize>>, rank: usize, nodes: Option<&[u32]>) -> Option<String> {
    let Some(late) = late else { return Some(UNTOLD.to_owned()) };
    let node = |rank: usize| nodes.and_then(|nodes| nodes.get(rank));
    if (0..rank).any(|other| node(other) == node(rank) && !late.contains(&other)) {
        return None;
    }
    Some(match late.as_slice() {
        [] => ", for ranks of other nodes".to_owned(),
        [one] => format!(", for rank {one}"),
        more => format!(", for ranks {}", list(more)),
    })
}

/// The error of a fence to which not all have come in time: these, as far as the launcher tells.
pub(super) fn late_error(ranks: Option<Vec<usize>>, fence: &str) -> Error {
    let what = match ranks.as_deref() {
        None => format!("not all ranks came to {fence} in time; the launcher does not say which"),
        Some([]) => format!("not all ranks came to {fence} in time; all of this node did"),
        Some([one]) => format!("rank {one} did not come to {fence} in time"),
        Some(more) => format!("ranks {} did not come to {fence} in time", list(more)),
    };
    let e = Error::new(ErrorKind::Timeout, what)
        .help("raise CIRCULANT_START_DEADLINE (--start-deadline) if the ranks are only slow");
    // Of several some may wait for another of them.
    match ranks.as_deref() {
        Some([one]) => e.with_peer(*one),
        _ => e,
    }
}

/// "1, 5", of many the first.
fn list(ranks: &[usize]) -> String {
    let shown: Vec<String> = ranks.iter().take(MAX_RANKS_LISTED).map(usize::to_string).collect();
    let more = if ranks.len() > MAX_RANKS_LISTED {
        format!(", … ({} in all)", ranks.len())
    } else {
        String::new()
    };
    format!("{}{more}", shown.join(", "))
}
