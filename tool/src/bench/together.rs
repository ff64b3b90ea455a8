//! How ranks come to begin a repetition at the same time.

use circulant::comm::Options;
use circulant::measure::Wire;

/// The barrier that no rank leaves before the others can: all ranks do the same in it.
const SYMMETRIC: &str = "n-way";

/// The options of the barrier ahead of each repetition. By price it may be one in which rank 0 tells all others to leave. It leaves a latency earlier than they do then, and
/// the last one when it has put to all. So where the latency is the longer one all ranks do the same; where it is not, the processors that ranks share
/// make those ranks leave at more different times. All ranks find the same.
pub(crate) fn options(options: Options, wire: &Wire, nodes: &[u32]) -> Options {
    if leave_apart(wire, nodes) { options.algorithm(SYMMETRIC) } else { options }
}

/// Whether rank 0 would leave long before the others. Those of one node look at each other's memory.
fn leave_apart(wire: &Wire, nodes: &[u32]) -> bool {
    let several = nodes.iter().any(|node| *node != nodes[0]);
    several && wire.latency_ns > wire.overhead_ns * (nodes.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_do_the_same_where_the_latency_is_longer_than_all_puts() {
        let wire = |latency_ns, overhead_ns| Wire { latency_ns, overhead_ns, byte_ns: 80.0 };
        let nodes: Vec<u32> = (0..16).collect();
        assert!(leave_apart(&wire(1e6, 5e3), &nodes));
        assert!(!leave_apart(&wire(2e3, 5e3), &nodes));
        assert!(!leave_apart(&wire(1e6, 5e3), &[3; 16]) && !leave_apart(&wire(1e6, 5e3), &[0]));
        assert!(!leave_apart(&Wire::default(), &nodes));
    }
}
