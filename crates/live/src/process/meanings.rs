//! Meanings of the strings of a process. Every operation repeats the same few.

use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::collective::{Collective, element_bytes};
use rustc_hash::FxHashMap;

use crate::sums::Sums;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) name: Symbol,
    pub(crate) collective: Option<Collective>,
}

#[derive(Debug, Default)]
pub(crate) struct Meanings {
    functions: FxHashMap<(Symbol, bool), Function>,
    algorithms: FxHashMap<(Symbol, Symbol), Symbol>,
    elements: FxHashMap<Symbol, u64>,
}

impl Meanings {
    pub(crate) fn function(
        &mut self,
        func: Symbol,
        is_by_copy_engines: bool,
        (symbols, sums): (&Symbols, &mut Sums),
    ) -> Function {
        *self.functions.entry((func, is_by_copy_engines)).or_insert_with(|| {
            let text = symbols.text(func);
            let suffix = if is_by_copy_engines { " (CE)" } else { "" };
            Function { name: sums.name(&format!("nccl{text}{suffix}")), collective: Collective::named(text) }
        })
    }

    pub(crate) fn algorithm(
        &mut self,
        (algorithm, protocol): (Symbol, Symbol),
        (symbols, sums): (&Symbols, &mut Sums),
    ) -> Symbol {
        *self.algorithms.entry((algorithm, protocol)).or_insert_with(|| {
            let texts = [symbols.text(algorithm), symbols.text(protocol)];
            let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            sums.name(&texts.join("_"))
        })
    }

    pub(crate) fn element_bytes(&mut self, datatype: Symbol, symbols: &Symbols) -> u64 {
        *self.elements.entry(datatype).or_insert_with(|| element_bytes(symbols.text(datatype)))
    }
}
