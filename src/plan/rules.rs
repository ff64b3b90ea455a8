//! stub
#![allow(missing_docs)]
use super::allgatherv::circulant::Blocks;
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub latency_ns: u64,
    pub overhead_ns: u64,
    pub byte_ps: u64,
}
pub fn bcast_blocks(_p: u32, bytes: u64, _m: &Model) -> u32 {
    (bytes / 65536).clamp(1, 512) as u32
}
pub fn allgatherv_blocks(counts: &[u64], _m: &Model) -> Blocks {
    let m: u64 = counts.iter().sum();
    Blocks::Equal((m / 262144).clamp(1, 64) as u32)
}
