//! The key of a region, before its strings are resolved.

use journal::format::Symbol;
use nccl_events::Kind;
use nccl_events::archive::RegionClass;
use nccl_events::collective::Pattern;

/// A region by meaning; its name comes from the strings of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionKey {
    pub class: RegionClass,
    pub kind: Option<Kind>,
    pub name: RegionName,
}

/// A region's name before its strings are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegionName {
    Fixed(&'static str),
    /// `nccl` and the function NCCL named, then a suffix.
    Func(Symbol, &'static str),
    Text(Symbol),
    /// A call by its full name.
    Call(Symbol),
    /// A range or a mark, by domain and name.
    Range(Symbol, Symbol),
    Derived(Pattern),
    /// Work of an unknown network plugin, by the plugin's id.
    Plugin(i64),
    /// A C++ function, by its mangled name.
    Mangled(Symbol),
    /// A copy, by CUPTI's number of its kind.
    Copy(u8),
}

impl RegionKey {
    pub const fn new(class: RegionClass, name: RegionName) -> Self {
        Self { class, kind: None, name }
    }

    /// A region whose name does not depend on the journal.
    pub const fn fixed(class: RegionClass, name: &'static str) -> Self {
        Self::new(class, RegionName::Fixed(name))
    }

    pub const fn func(class: RegionClass, func: Symbol, suffix: &'static str) -> Self {
        Self::new(class, RegionName::Func(func, suffix))
    }

    /// Pointer equality of literals, as a fast path: `false` is possible for equal texts.
    #[inline]
    pub(super) fn is_surely(self, other: Self) -> bool {
        let is_name = match (self.name, other.name) {
            (RegionName::Fixed(name), RegionName::Fixed(other)) => std::ptr::eq(name, other),
            (RegionName::Func(func, suffix), RegionName::Func(other, other_suffix)) => {
                func == other && std::ptr::eq(suffix, other_suffix)
            }
            (name, other) => name == other,
        };
        is_name && self.class == other.class && self.kind == other.kind
    }

    /// The same region, marked as showing events of this kind.
    pub const fn showing(self, kind: Kind) -> Self {
        Self { kind: Some(kind), ..self }
    }
}
