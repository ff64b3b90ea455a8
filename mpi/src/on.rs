//! A communicator of the program, with what its MPI is asked by.

use crate::abi::Abi;
use crate::real::Real;

/// Where the MPI's functions are called that need a communicator, such as those that pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct On {
    pub(crate) real: &'static Real,
    pub(crate) abi: &'static Abi,
    /// The communicator.
    pub(crate) handle: usize,
}
