//! The definitions of one part: strings, regions and communicators, numbered by meaning.
//!
//! Numbers come from sorted content, never from the order of arrival, so that the same journal always
//! gives the same part. They are local: `unify` maps them to the archive's.

use nccl_events::event;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use otf2::{Paradigm, RegionRef, RegionRole, StringRef};
use rustc_hash::FxHashMap;

use crate::links::collective;
use crate::links::correlate::Correlation;
use crate::links::gpu_work::words::{copy_kind, demangled};
use crate::links::interval::Timing;
use crate::links::pxn::{self, placeholder};
use crate::tables::assembly::Assembly;
use crate::tables::place::{index, place};
use crate::timeline::canvas::Drawing;
use crate::timeline::figure::{RegionCode, RegionKey, RegionName};
use crate::vocabulary::{RegionClass, canonical_name};
use journal::format::record::Symbol;
use journal::reader::Symbols;
use nccl_events::Body;

/// The strings and regions of a part.
#[derive(Debug, Default)]
pub struct Tables {
    /// The strings, by number.
    pub strings: Vec<String>,
    /// The regions, by number.
    pub regions: Vec<RegionText>,
    by_text: BTreeMap<String, u32>,
    by_symbol: Vec<StringRef>,
    by_region: BTreeMap<RegionKey, RegionRef>,
    by_code: FxHashMap<RegionCode, RegionRef>,
}

/// A region in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionFacts {
    /// What it does.
    pub role: RegionRole,
    /// Which programming model.
    pub paradigm: Paradigm,
    /// Which region group it is in.
    pub group: &'static str,
    /// What kind of region, in words.
    pub description: &'static str,
}

/// A region's name and class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionText {
    /// Its class.
    pub class: RegionClass,
    /// Its name.
    pub name: String,
    /// What it shows, see [`crate::vocabulary`]; of a kernel what compilers call it.
    pub canonical: String,
    /// What NCCL calls the function; empty if it is not about one.
    pub func: String,
}

/// The name of a region.
fn region_text(key: RegionKey, symbols: &Symbols) -> RegionText {
    let (name, func) = match key.name {
        RegionName::Fixed(name) => (name.to_owned(), ""),
        RegionName::Composite(pattern) => (format!("nccl{}", pattern.func()), pattern.func()),
        RegionName::Plugin(id) => (format!("net plugin {id:#x}"), ""),
        RegionName::Copy(kind) => (copy_kind(kind).to_owned(), ""),
        RegionName::Mangled(name) => {
            let name = match symbols.text(name) {
                "" => "kernel",
                name => name,
            };
            return RegionText {
                class: key.class,
                name: demangled(name),
                canonical: name.to_owned(),
                func: String::new(),
            };
        }
        RegionName::Text(name) => {
            let name = match symbols.text(name) {
                "" => "phase",
                name => name,
            };
            (name.to_owned(), "")
        }
        RegionName::Func(func, suffix) => {
            let func = match symbols.text(func) {
                "" => "Unknown",
                func => func,
            };
            (format!("nccl{func}{suffix}"), func)
        }
    };
    RegionText {
        class: key.class,
        canonical: canonical_name(key.class, key.kind, &name),
        name,
        func: func.to_owned(),
    }
}

impl RegionText {
    /// What the archive says about it.
    #[must_use]
    pub fn facts(&self) -> RegionFacts {
        let (paradigm, group, description) = match self.class {
            RegionClass::Api => (Paradigm::Mpi, "NCCL API", "call"),
            RegionClass::Enqueue => (Paradigm::Mpi, "NCCL API", "enqueueing of an operation"),
            RegionClass::Launch => (Paradigm::Cuda, "NCCL API", "launch of a kernel"),
            RegionClass::Operation => (Paradigm::Mpi, "NCCL operations", "operation"),
            RegionClass::Network => (Paradigm::Mpi, "NCCL network", "transfer by the proxy"),
            RegionClass::Channel => (Paradigm::Cuda, "CUDA kernels", "channel of a kernel"),
            RegionClass::Proxy => (Paradigm::Mpi, "NCCL proxy", "state of a proxy thread"),
            RegionClass::Kernel => (Paradigm::Cuda, "CUDA kernels", "kernel"),
            RegionClass::Copy => (Paradigm::Cuda, "CUDA copies", "copy by a GPU"),
        };
        let role = match (self.class, self.name.as_str()) {
            (RegionClass::Api | RegionClass::Operation, _) if !self.func.is_empty() => {
                collective::role(&self.func)
            }
            (RegionClass::Network, "queued") => RegionRole::Artificial,
            (RegionClass::Network | RegionClass::Copy, _) => RegionRole::DataTransfer,
            (RegionClass::Channel | RegionClass::Proxy | RegionClass::Kernel, _) => {
                RegionRole::Function
            }
            _ => RegionRole::Wrapper,
        };
        RegionFacts {
            role,
            paradigm,
            group,
            description,
        }
    }
}

/// The strings of an operation beside its function's name.
pub(crate) const fn symbols_in(fields: &Body<Symbol>) -> [Symbol; 4] {
    match *fields {
        Body::Coll(event::Coll {
            datatype,
            algorithm,
            protocol,
            kernel_variant,
            ..
        }) => [datatype, algorithm, protocol, kernel_variant],
        Body::CeColl(event::CeColl {
            datatype,
            sync_strategy,
            ..
        }) => [datatype, sync_strategy, Symbol::NONE, Symbol::NONE],
        Body::P2p(event::P2p { datatype, .. })
        | Body::CollApi(event::CollApi { datatype, .. })
        | Body::P2pApi(event::P2pApi { datatype, .. }) => {
            [datatype, Symbol::NONE, Symbol::NONE, Symbol::NONE]
        }
        _ => [Symbol::NONE; 4],
    }
}

impl Tables {
    /// Numbers what the lanes of a part will need.
    #[must_use]
    pub fn of(
        assembly: &Assembly,
        correlation: &Correlation,
        drawing: &Drawing,
        symbols: &Symbols,
    ) -> Self {
        let in_fields = symbols.all().filter(|&symbol| assembly.seen.has(symbol));
        let mut used: BTreeSet<Symbol> = in_fields.collect();
        if !assembly.operations.is_empty() {
            used.insert(Symbol::NONE);
        }
        used.extend(assembly.contexts.iter().map(|context| context.comm.name));
        let timings = Timing::ALL.iter().map(|timing| timing.name());
        let mut texts: BTreeSet<&str> = timings.collect();
        let transfers = correlation.transfers_for_others(assembly);
        let origins = transfers
            .map(|(_, operation)| operation)
            .filter(|o| pxn::is_for_another(assembly, o));
        let origins: BTreeSet<u64> = origins
            .map(|operation| assembly.context_of(operation))
            .collect();
        let origins: Vec<String> = origins.into_iter().map(placeholder).collect();
        texts.extend(origins.iter().map(String::as_str));
        texts.extend(used.iter().map(|&symbol| symbols.text(symbol)));
        let of_work = correlation.gpu.texts();
        texts.extend(of_work.iter().map(String::as_str));
        let mut tables = Self::default();
        for text in texts {
            let number = place(tables.strings.len());
            tables.strings.push(text.to_owned());
            tables.by_text.insert(text.to_owned(), number);
        }
        for &symbol in &used {
            // An attribute that says nothing is left out.
            if symbols.text(symbol).is_empty() {
                continue;
            }
            let at = index(symbol.0);
            if tables.by_symbol.len() <= at {
                tables.by_symbol.resize(at + 1, StringRef::UNDEFINED);
            }
            let reference = tables.text(symbols.text(symbol));
            if let Some(slot) = tables.by_symbol.get_mut(at) {
                *slot = reference;
            }
        }
        tables.number_regions(assembly, correlation, drawing, symbols);
        tables
    }

    fn number_regions(
        &mut self,
        assembly: &Assembly,
        correlation: &Correlation,
        drawing: &Drawing,
        symbols: &Symbols,
    ) {
        let mut named: BTreeMap<RegionText, Vec<RegionKey>> = BTreeMap::new();
        let items = drawing.lanes.iter().flat_map(|lane| &lane.items);
        for figure in drawing.needed.figures(items) {
            let fields = figure.fields(assembly, correlation);
            let key = figure.region(fields.as_ref(), correlation);
            if let Entry::Vacant(new) = self.by_code.entry(key.code()) {
                new.insert(RegionRef::UNDEFINED);
                let keys = named.entry(region_text(key, symbols)).or_default();
                keys.push(key);
            }
        }
        for (text, keys) in named {
            let reference = RegionRef::new(place(self.regions.len()));
            self.regions.push(text);
            for key in keys {
                self.by_code.insert(key.code(), reference);
                self.by_region.insert(key, reference);
            }
        }
    }

    /// The number of a text; undefined if it is not in the table.
    #[must_use]
    pub fn text(&self, text: &str) -> StringRef {
        self.by_text
            .get(text)
            .map_or(StringRef::UNDEFINED, |&number| StringRef::new(number))
    }

    /// The number of a symbol's text; undefined for no string and for an empty one.
    #[must_use]
    #[inline]
    pub fn symbol(&self, symbol: Symbol) -> StringRef {
        let known = self.by_symbol.get(index(symbol.0)).copied();
        known.unwrap_or(StringRef::UNDEFINED)
    }

    /// The number of a region.
    #[must_use]
    pub fn region(&self, key: RegionKey) -> RegionRef {
        let known = self.by_code.get(&key.code());
        let known = known.or_else(|| self.by_region.get(&key));
        known.copied().unwrap_or(RegionRef::UNDEFINED)
    }
}
