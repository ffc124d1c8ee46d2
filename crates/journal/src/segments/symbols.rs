//! The distinct strings of a journal.

use std::collections::BTreeMap;

use nccl_events::index::index;

use crate::format::record::Symbol;

/// The strings, by number.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    texts: Vec<String>,
    numbers: BTreeMap<String, Symbol>,
}

impl Symbols {
    /// The number of a string; assigns the next number to a new string.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.numbers.get(text) {
            return symbol;
        }
        self.texts.push(text.to_owned());
        let symbol = Symbol(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.numbers.insert(text.to_owned(), symbol);
        symbol
    }

    /// The numbers of all strings.
    pub fn all(&self) -> impl Iterator<Item = Symbol> {
        (1_u32..).zip(&self.texts).map(|(number, _)| Symbol(number))
    }

    /// The string with this number; empty for [`Symbol::NONE`].
    pub fn text(&self, symbol: Symbol) -> &str {
        index(symbol.0).checked_sub(1).and_then(|index| self.texts.get(index)).map_or("", String::as_str)
    }
}
