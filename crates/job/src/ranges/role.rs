//! What a range becomes, and names.

use journal::format::Symbol;
use journal::reader::Symbols;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRole {
    /// A range or mark of the program or of a library.
    User,
    /// A call of NCCL's that only the range shows.
    Call,
    /// A call of NCCL's that the interface reports, too: the range is not shown.
    Reported,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeEnd {
    Known,
    /// The end was not recorded; something else shows that the range did not last longer.
    Bounded,
    /// The range had not ended when recording did.
    Open,
}

/// The name of a range's region.
pub fn range_name(symbols: &Symbols, name: Symbol) -> &str {
    match symbols.text(name) {
        "" => "range",
        name => name,
    }
}

/// The name of an `ncclRedOp_t`; its number if the program made the operator.
pub fn reduction_name(number: u64) -> String {
    let names = ["sum", "prod", "max", "min", "avg"];
    let known = usize::try_from(number).ok().and_then(|number| names.get(number));
    known.map_or_else(|| number.to_string(), |&name| name.to_owned())
}
