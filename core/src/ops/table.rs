//! The built-in reducers as one table, by type and operator: for the tool, for tests, for documents.

use super::builtin::{Band, Bor, Bxor, Land, Lor, Lxor, Max, Maxloc, Min, Minloc, Prod, Sum};
use super::located::{DoubleInt, F32Index, F64Index, FloatInt, I32Index, I64Index, LongInt, ShortInt};
use super::located::{TwoDouble, TwoInt, TwoReal, U32Index, U64Index};
use super::operator::Operator;
use super::reducer::Reducer;
use super::types::{Op, Type, for_types};
use crate::error::{Result, argument};
use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;
use std::sync::OnceLock;

/// Makes a reducer.
type Make = fn() -> Reducer;

/// From a type to the operators of its group.
macro_rules! built_in {
    ($($variant:ident $name:literal $t:ty: $group:ident,)*) => {
        fn built_in(kind: Type, op: Op) -> Option<Make> {
            match kind { $(Type::$variant => $group::<$t>(op),)* }
        }
    };
}
for_types!(built_in);

/// The operators of a group of types, and a function from one of them to what makes the reducer.
macro_rules! group {
    ($group:ident: $($op:ident)*) => {
        fn $group<T: Pod>(op: Op) -> Option<Make>
        where
            $($op: Operator<T>,)*
        {
            match op {
                $(Op::$op => Some(|| Reducer::kept::<T, _>($op)),)*
                #[allow(unreachable_patterns, reason = "a group may have all operators")]
                _ => None,
            }
        }
    };
}

group!(integer: Sum Prod Min Max Land Lor Lxor Band Bor Bxor);
group!(real: Sum Prod Min Max);
group!(complex: Sum Prod);
group!(located: Minloc Maxloc);

/// The built-in operator `op` on elements of type `kind`. It is made once.
///
/// # Errors
/// The type does not have it.
pub fn reducer(kind: Type, op: Op) -> Result<Reducer> {
    static MADE: [[OnceLock<Reducer>; Op::ALL.len()]; Type::ALL.len()] =
        [const { [const { OnceLock::new() }; Op::ALL.len()] }; Type::ALL.len()];
    let made = &MADE[kind as usize][op as usize];
    if let Some(reducer) = made.get() {
        return Ok(reducer.clone());
    }
    let make = built_in(kind, op).ok_or_else(|| {
        let of = |list: &[&'static str]| list.join(", ");
        let ops: Vec<_> =
            Op::ALL.iter().filter(|o| built_in(kind, **o).is_some()).map(|o| o.name()).collect();
        let kinds: Vec<_> =
            Type::ALL.iter().filter(|t| built_in(**t, op).is_some()).map(|t| t.name()).collect();
        argument(format!("{op} is not defined on {kind}")).help(format!(
            "{kind} has {}; {op} works on {}",
            of(&ops),
            of(&kinds)
        ))
    })?;
    Ok(made.get_or_init(make).clone())
}

/// Every type with every operator that it has.
pub fn pairs() -> impl Iterator<Item = (Type, Op)> {
    let all = Type::ALL.iter().flat_map(|t| Op::ALL.iter().map(move |o| (*t, *o)));
    all.filter(|(t, o)| built_in(*t, *o).is_some())
}
