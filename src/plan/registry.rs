//! stub
#![allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Bcast,
    Allgather,
    Allgatherv,
    Barrier,
}
impl Operation {
    pub fn code(self) -> u8 {
        self as u8 + 1
    }
    pub fn name(self) -> &'static str {
        operation_name(self.code())
    }
}
pub fn operation_name(code: u8) -> &'static str {
    ["nothing yet", "bcast", "allgather", "allgatherv", "barrier"]
        .get(usize::from(code))
        .copied()
        .unwrap_or("?")
}
