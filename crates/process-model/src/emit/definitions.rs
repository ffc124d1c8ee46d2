//! The definitions of one part: strings, regions and communicators, numbered by meaning.
//!
//! Numbers come from sorted content, never from the order of arrival, so that the same journal always
//! gives the same part. They are local: `unify` maps them to the archive's.

use std::collections::{BTreeMap, BTreeSet};

use otf2::{Paradigm, RegionRef, RegionRole, StringRef};

use crate::links::gpu_work::names::{copy_kind, demangled};
use crate::links::pxn::{self, placeholder};
use crate::links::{Links, collective};
use crate::timeline::instance::{RegionKey, RegionName, RegionNumber, Regions};
use job::ranges::range_name;
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::archive::{RegionClass, Timing, canonical_name, canonical_range_name};
use nccl_events::collective::Function;
use nccl_events::event::{Style, Value};
use nccl_events::ids::{index, index_u32};
use nccl_events::sort::Gather;
use tables::Tables;

#[derive(Debug, Default)]
pub struct Definitions {
    pub strings: Vec<String>,
    pub regions: Vec<RegionText>,
    by_text: BTreeMap<String, u32>,
    by_symbol: Vec<StringRef>,
    /// By index in [`job::ranges::Paths::texts`].
    by_path: Vec<StringRef>,
    /// Indexed by region number in the timeline.
    by_region: Vec<RegionRef>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionFacts {
    pub role: RegionRole,
    pub paradigm: Paradigm,
    pub group: String,
    pub description: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionText {
    pub class: RegionClass,
    pub name: String,
    /// What the region shows, see [`nccl_events::archive`]; for a kernel, its mangled name.
    pub canonical: String,
    /// NCCL's name of the function; empty if the region is not about a function.
    pub func: String,
    /// The NVTX domain of a range or mark; empty for the default domain.
    pub domain: String,
}

fn region_text(key: RegionKey, symbols: &Symbols) -> RegionText {
    let domain = String::new();
    let (name, func) = match key.name {
        RegionName::Fixed(name) => (name.to_owned(), ""),
        RegionName::Derived(pattern) => {
            let func = pattern.collective().name();
            (format!("nccl{func}"), func)
        }
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
                domain,
            };
        }
        RegionName::Range(domain, name) => {
            let (domain, name) = (symbols.text(domain).to_owned(), range_name(symbols, name).to_owned());
            let canonical = canonical_range_name(key.class, &domain, &name);
            return RegionText { class: key.class, name, canonical, func: String::new(), domain };
        }
        RegionName::Call(name) => {
            let name = range_name(symbols, name);
            let func = name.strip_prefix("nccl").filter(|func| Function::named(func).is_some());
            (name.to_owned(), func.unwrap_or_default())
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
    let (canonical, func) = (canonical_name(key.class, key.kind, &name), func.to_owned());
    RegionText { class: key.class, canonical, name, func, domain }
}

impl RegionText {
    pub fn facts(&self) -> RegionFacts {
        // Readers count the time in regions of paradigm MPI as MPI time, so no region has it: only communicators do.
        let (paradigm, group, description) = match self.class {
            RegionClass::Api => (Paradigm::User, "NCCL API", "call"),
            RegionClass::Enqueue => (Paradigm::User, "NCCL API", "enqueueing of an operation"),
            RegionClass::Launch => (Paradigm::Cuda, "NCCL API", "launch of a kernel"),
            RegionClass::Operation => (Paradigm::User, "NCCL operations", "operation"),
            RegionClass::Network => (Paradigm::User, "NCCL network", "transfer by the proxy"),
            RegionClass::Channel => (Paradigm::Cuda, "CUDA kernels", "channel of a kernel"),
            RegionClass::Proxy => (Paradigm::User, "NCCL proxy", "state of a proxy thread"),
            RegionClass::Kernel => (Paradigm::Cuda, "CUDA kernels", "kernel"),
            RegionClass::Copy => (Paradigm::Cuda, "CUDA copies", "copy by a GPU"),
            RegionClass::User => (Paradigm::User, "NVTX", "range of the program"),
            RegionClass::Mark => (Paradigm::User, "NVTX", "mark of the program"),
        };
        let group = match self.domain.as_str() {
            "" => group.to_owned(),
            domain => format!("{group} {domain}"),
        };
        let role = match (self.class, self.name.as_str()) {
            (RegionClass::Api | RegionClass::Operation, _) if !self.func.is_empty() => collective::role(&self.func),
            (RegionClass::Network, "queued") | (RegionClass::Mark, _) => RegionRole::Artificial,
            (RegionClass::User, _) => RegionRole::Code,
            (RegionClass::Network | RegionClass::Copy, _) => RegionRole::DataTransfer,
            (RegionClass::Channel | RegionClass::Proxy | RegionClass::Kernel, _) => RegionRole::Function,
            _ => RegionRole::Wrapper,
        };
        RegionFacts { role, paradigm, group, description }
    }
}

/// Strings in event fields, except function names.
fn symbols_in(tables: &Tables) -> BTreeSet<Symbol> {
    let mut used = Used::default();
    let mut add = |label: &str, _: Style, value: Value<Symbol>| match value {
        Value::Name(symbol) if label != "func" => used.add(symbol),
        _ => {}
    };
    let events = &tables.events;
    events.colls.iter().for_each(|coll| coll.fields.each(&mut add));
    events.ce_colls.iter().for_each(|coll| coll.fields.each(&mut add));
    events.p2ps.iter().for_each(|p2p| p2p.fields.each(&mut add));
    events.coll_apis.iter().for_each(|call| call.fields.each(&mut add));
    events.p2p_apis.iter().for_each(|call| call.fields.each(&mut add));
    (0..).zip(used.0).filter(|&(_, is_used)| is_used).map(|(symbol, _)| Symbol(symbol)).gather()
}

/// Whether each symbol is used, by symbol number.
#[derive(Default)]
struct Used(Vec<bool>);

impl Used {
    fn add(&mut self, symbol: Symbol) {
        let at = index(symbol.0);
        if at >= self.0.len() {
            self.0.resize(at + 1, false);
        }
        if let Some(is_used) = self.0.get_mut(at) {
            *is_used = true;
        }
    }
}

impl Definitions {
    pub fn of(tables: &Tables, links: &Links, regions: &Regions, symbols: &Symbols) -> Self {
        let mut used = symbols_in(tables);
        if tables.events.heads().next().is_some() {
            used.insert(Symbol::NONE);
        }
        used.extend(tables.contexts.iter().map(|context| context.comm.name));
        used.extend(links.ranges.symbols(tables));
        let mut texts: BTreeSet<&str> = Timing::ALL.iter().map(|timing| timing.name()).gather();
        let transfers = links.transfers.for_others.iter().map(|&row| &tables[row]);
        let for_another = transfers.filter(|op| pxn::is_for_another(tables, op));
        let origins: BTreeSet<u64> = for_another.map(|op| tables.context_of(op)).gather();
        let origins: Vec<String> = origins.into_iter().map(placeholder).collect();
        texts.extend(origins.iter().map(String::as_str));
        texts.extend(used.iter().map(|&symbol| symbols.text(symbol)));
        let of_work = links.gpu.texts();
        texts.extend(of_work.iter().map(String::as_str));
        let of_ranges = links.ranges.texts(tables);
        texts.extend(of_ranges.iter().map(String::as_str));
        texts.extend(links.ranges.paths.texts.iter().map(String::as_str));
        let mut definitions = Self::default();
        for text in texts {
            let number = index_u32(definitions.strings.len());
            definitions.strings.push(text.to_owned());
            definitions.by_text.insert(text.to_owned(), number);
        }
        for &symbol in &used {
            // Empty attributes are left out.
            if symbols.text(symbol).is_empty() {
                continue;
            }
            let reference = definitions.text(symbols.text(symbol));
            put(&mut definitions.by_symbol, index(symbol.0), reference, StringRef::UNDEFINED);
        }
        definitions.by_path = links.ranges.paths.texts.iter().map(|text| definitions.text(text)).collect();
        definitions.number_regions(regions, symbols);
        definitions
    }

    fn number_regions(&mut self, regions: &Regions, symbols: &Symbols) {
        let mut named: BTreeMap<RegionText, Vec<RegionNumber>> = BTreeMap::new();
        for (number, key) in regions.used() {
            named.entry(region_text(key, symbols)).or_default().push(number);
        }
        for (text, numbers) in named {
            let reference = RegionRef::new(index_u32(self.regions.len()));
            self.regions.push(text);
            for number in numbers {
                put(&mut self.by_region, number.index(), reference, RegionRef::UNDEFINED);
            }
        }
    }

    /// The number of a text; undefined if the text is not in the table.
    pub fn text(&self, text: &str) -> StringRef {
        self.by_text.get(text).map_or(StringRef::UNDEFINED, |&number| StringRef::new(number))
    }

    /// The number of a symbol's text; undefined if there is no string or it is empty.
    #[inline]
    pub fn symbol(&self, symbol: Symbol) -> StringRef {
        self.by_symbol.get(index(symbol.0)).copied().unwrap_or(StringRef::UNDEFINED)
    }

    /// The number of a path of user ranges.
    pub fn path(&self, path: u32) -> StringRef {
        self.by_path.get(index(path)).copied().unwrap_or(StringRef::UNDEFINED)
    }

    #[inline]
    pub fn region(&self, number: RegionNumber) -> RegionRef {
        self.by_region.get(number.index()).copied().unwrap_or(RegionRef::UNDEFINED)
    }
}

fn put<T: Clone>(list: &mut Vec<T>, at: usize, value: T, nothing: T) {
    if list.len() <= at {
        list.resize(at + 1, nothing);
    }
    if let Some(entry) = list.get_mut(at) {
        *entry = value;
    }
}
