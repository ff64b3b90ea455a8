//! Computing while collectives are under way: a sum over all ranks of one step goes on during the next. Run it with
//! `circulant run -n 4 target/debug/examples/overlap`; with CIRCULANT_PROGRESS=thread a thread of the library
//! moves it on meanwhile, else `test` does.

use circulant::ops::Sum;
use circulant::{InPlace, World};

const STEPS: u64 = 20;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let mut under_way = None;
    let mut sums = Vec::new();
    for step in 0..STEPS {
        let mut ones = comm.alloc::<u64>(10_000)?;
        ones.fill(step);
        // The request owns the buffer; `wait` gives it back.
        let request = comm.iallreduce(InPlace, ones, Sum)?;
        if let Some(before) = under_way.replace(request) {
            sums.push(before.wait()?.recv[9_999]);
        }
        if let Some(request) = &mut under_way {
            let mut work = 0u64;
            for i in 0..100_000u64 {
                work = work.wrapping_mul(31).wrapping_add(i);
                // Moves on whatever is under way.
                if i.is_multiple_of(10_000) && request.test()? {
                    continue;
                }
            }
            std::hint::black_box(work);
        }
    }
    if let Some(last) = under_way {
        sums.push(last.wait()?.recv[9_999]);
    }
    assert!(sums.iter().enumerate().all(|(step, sum)| *sum == step as u64 * comm.size() as u64));
    println!("rank {}: {} sums, the last is {:?}", comm.rank(), sums.len(), sums.last());
    world.finalize()
}
