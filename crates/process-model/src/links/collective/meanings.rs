//! Meanings of the strings in a journal. Every operation repeats the same few, so each is interpreted once.

use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::collective::{Collective, Function, element_bytes};
use nccl_events::ids::index;

/// The meaning of a string that names a data type or a function.
#[derive(Clone, Copy, Debug, Default)]
struct Meaning {
    element_bytes: u64,
    function: Option<Function>,
}

#[derive(Debug, Default)]
pub struct Meanings(Vec<Meaning>);

impl Meanings {
    pub fn of(symbols: &Symbols) -> Self {
        let none = Meaning::default();
        let named = symbols.all().map(|symbol| {
            let text = symbols.text(symbol);
            Meaning { element_bytes: element_bytes(text), function: Function::named(text) }
        });
        Self([none].into_iter().chain(named).collect())
    }

    /// Bytes of an element of a data type, see [`element_bytes`].
    #[inline]
    fn element_bytes(&self, datatype: Symbol) -> u64 {
        self.0.get(index(datatype.0)).map_or(0, |meaning| meaning.element_bytes)
    }

    #[inline]
    pub fn bytes(&self, count: u64, datatype: Symbol) -> u64 {
        count.saturating_mul(self.element_bytes(datatype))
    }

    #[inline]
    pub fn function(&self, func: Symbol) -> Option<Function> {
        self.0.get(index(func.0))?.function
    }

    #[inline]
    pub fn collective(&self, func: Symbol) -> Option<Collective> {
        self.function(func)?.collective()
    }
}
