//! Ranks as a grid of rows and columns, with a communicator for each row and each column: the product of a matrix,
//! a block at each rank, with a vector. Run it with `circulant run -n 6 target/debug/examples/rows_columns`.

use circulant::World;
use circulant::ops::Sum;

/// Rows and columns of a block.
const N: usize = 8;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    // As square as it gets.
    let columns = (1..=comm.size())
        .filter(|c| comm.size().is_multiple_of(*c) && c * c <= comm.size())
        .max()
        .unwrap_or(1);
    let (row, column) = (comm.rank() / columns, comm.rank() % columns);
    // `None` would say that this rank is in none of them.
    let Some(my_row) = comm.split(Some(row as i64), 0)? else { return world.finalize() };
    let Some(my_column) = comm.split(Some(column as i64), 0)? else { return world.finalize() };

    // The topmost rank of a column has the column's part of the vector: 1, 2, 3, …
    let mut x = vec![0.0; N];
    if row == 0 {
        (0..N).for_each(|j| x[j] = (column * N + j + 1) as f64);
    }
    my_column.bcast(&mut x, 0)?;
    // The block of a matrix whose row i is i, i, i, …
    let product: Vec<f64> = (0..N).map(|i| x.iter().map(|x| (row * N + i) as f64 * x).sum()).collect();
    let mut y = vec![0.0; N];
    my_row.reduce(&product, &mut y, Sum, 0)?;

    if column == 0 {
        let n = (columns * N) as f64;
        for (i, y) in y.iter().enumerate() {
            assert_eq!(*y, (row * N + i) as f64 * n * (n + 1.0) / 2.0);
        }
        println!("row {row} of {} × {columns} ranks: y = {y:?}", comm.size() / columns);
    }
    world.finalize()
}
