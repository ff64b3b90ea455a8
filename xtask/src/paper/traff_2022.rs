//! Träff 2022: the schedules of Tables 1 and 5, the theorems' rounds and times, the cost of computing schedules.

mod tables;
mod theorems;

use super::sheet::Sheet;
use circulant::Result;

pub(super) fn check(sheet: &mut Sheet<'_>) -> Result<()> {
    tables::check(sheet);
    theorems::schedules(sheet);
    theorems::broadcast(sheet)?;
    theorems::allgather(sheet)?;
    theorems::cost(sheet);
    Ok(())
}
