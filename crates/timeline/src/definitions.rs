//! The definitions of one part: strings, regions and communicators, numbered by meaning; and its devices and GPU
//! clocks. Numbers come from sorted content, never from the order of arrival, so that the same journal always gives the
//! same part. They are local: `unify` maps them to the archive's.

use std::collections::{BTreeMap, BTreeSet};

use crate::instance::{FusedKernel, RegionKey, RegionName, RegionNumber, Regions};
use clocks::gpu::SampleQuality;
use journal::format::Symbol;
use journal::reader::Symbols;
use model::links::gpu_work::{GpuWork, copy_kind, demangled};
use model::links::transfers;
use model::links::transfers::placeholder;
use model::process::Links;
use model::program_ranges::range_name;
use model::tables::Tables;
use nccl_events::archive;
use nccl_events::archive::{RegionClass, Timing, canonical_name, canonical_range_name};
use nccl_events::collective::{Collective, Flow, Function};
use nccl_events::event::declare::{Style, Value};
use nccl_events::gpu::{ALL_DEVICES, Device, GpuClock};
use nccl_events::ids::{index, index_u32};
use nccl_events::sort::Gather;
use otf2::{CollectiveOp, Paradigm, ParameterRef, RegionRef, RegionRole, StringRef};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default)]
pub struct Definitions {
    pub strings: Vec<String>,
    pub regions: Vec<RegionText>,
    by_text: BTreeMap<String, u32>,
    by_symbol: Vec<StringRef>,
    /// By index in [`model::program_ranges::Paths::texts`].
    by_path: Vec<StringRef>,
    /// Indexed by region number in the timeline.
    by_region: Vec<RegionRef>,
    /// The regions of which something is shown as a record, ascending: each has a parameter of its name.
    pub parameters: Vec<RegionRef>,
    /// The kernels with several operations.
    pub(crate) kernels: Vec<FusedKernel>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionProperties {
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

fn region_text(key: RegionKey, regions: &Regions, symbols: &Symbols) -> RegionText {
    let domain = String::new();
    let (name, func) = match key.name {
        RegionName::Fused(at) => {
            let operations = regions.operations(at).map(|operation| region_text(operation, regions, symbols));
            return fused_text(operations.collect());
        }
        RegionName::Fixed(name) => (name.to_owned(), ""),
        RegionName::Derived(pattern) => {
            let func = pattern.collective().name();
            (format!("nccl{func}"), func)
        }
        RegionName::Plugin { id, is_send: true } => (format!("net plugin {id:#x} send"), ""),
        RegionName::Plugin { id, is_send: false } => (format!("net plugin {id:#x} receive"), ""),
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
    let (canonical, func) = (canonical_name(key.class, &name), func.to_owned());
    // A call has the API's name; no operation shares it, so that tools that add by name do not mix the two.
    let name = match (key.class, name.strip_prefix("nccl")) {
        (RegionClass::Operation | RegionClass::Enqueue, Some(function)) => format!("NCCL {function}"),
        _ => name,
    };
    RegionText { class: key.class, canonical, name, func, domain }
}

/// The region of several operations: named by their functions, in a fixed order.
fn fused_text(operations: Vec<RegionText>) -> RegionText {
    let join = |text: fn(&RegionText) -> &str| {
        let texts: BTreeSet<&str> = operations.iter().map(text).gather();
        texts.into_iter().collect::<Vec<_>>().join(JOINT)
    };
    let functions = match join(|operation| operation.name.strip_prefix("NCCL ").unwrap_or(&operation.name)) {
        joined if joined == "Recv+Send" => "Send+Recv".to_owned(),
        joined if joined.contains(JOINT) => joined,
        one => format!("{one}{}", archive::region::FUSED),
    };
    RegionText {
        class: RegionClass::Fused,
        canonical: canonical_name(RegionClass::Fused, &functions),
        name: format!("NCCL {functions}"),
        func: join(|operation| &operation.func),
        domain: String::new(),
    }
}

/// Between the functions of operations that ran as one kernel.
const JOINT: &str = "+";

impl RegionText {
    pub fn facts(&self) -> RegionProperties {
        // Readers count the time in regions of paradigm MPI as MPI time, so no region has it: only communicators do.
        let (paradigm, group, description) = match self.class {
            RegionClass::Api => (Paradigm::User, "NCCL API", "call"),
            RegionClass::Enqueue => (Paradigm::User, "NCCL API", "enqueueing of an operation"),
            RegionClass::Launch => (Paradigm::Cuda, "NCCL API", "launch of a kernel"),
            RegionClass::Operation => (Paradigm::User, "NCCL operations", "operation"),
            RegionClass::Fused => (Paradigm::User, "NCCL operations", "operations of one kernel"),
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
        // Readers add up the time in collectives and messages by role: only operations have these, or all counts twice.
        let role = match (self.class, self.name.as_str()) {
            (RegionClass::Operation, _) => role(&self.func),
            (RegionClass::Fused, _) => {
                let mut roles = self.func.split(JOINT).map(role);
                let first = roles.next().unwrap_or(RegionRole::CollOther);
                if roles.all(|role| role == first) { first } else { RegionRole::CollOther }
            }
            (RegionClass::Api, archive::region::GROUP) | (RegionClass::Enqueue | RegionClass::Mark, _) => {
                RegionRole::Artificial
            }
            (RegionClass::Launch, _) => RegionRole::Wrapper,
            (RegionClass::User, _) => RegionRole::Code,
            (RegionClass::Network | RegionClass::Copy, _) => RegionRole::DataTransfer,
            (RegionClass::Api | RegionClass::Channel | RegionClass::Proxy | RegionClass::Kernel, _) => {
                RegionRole::Function
            }
        };
        RegionProperties { role, paradigm, group, description }
    }
}

/// Strings in event fields, except function names.
fn symbols_in(tables: &Tables) -> BTreeSet<Symbol> {
    let mut used = UsedSymbols::default();
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
struct UsedSymbols(Vec<bool>);

impl UsedSymbols {
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
    pub fn new(tables: &Tables, links: &Links, regions: &Regions, symbols: &Symbols) -> Self {
        let mut used = symbols_in(tables);
        if tables.events.heads().next().is_some() {
            used.insert(Symbol::NONE);
        }
        used.extend(tables.contexts.iter().map(|context| context.comm.name));
        used.extend(links.ranges.symbols(tables));
        let mut texts: BTreeSet<&str> = Timing::ALL.iter().map(|timing| timing.name()).gather();
        let transfers = links.transfers.for_others.iter().map(|&row| &tables[row]);
        let for_another = transfers.filter(|op| transfers::is_for_another(tables, op));
        let origins: BTreeSet<u64> = for_another.map(|op| tables.context_of(op)).gather();
        let origins: Vec<String> = origins.into_iter().map(placeholder).collect();
        texts.extend(origins.iter().map(String::as_str));
        texts.extend(used.iter().map(|&symbol| symbols.text(symbol)));
        let work_texts = links.gpu.texts();
        texts.extend(work_texts.iter().map(String::as_str));
        let range_texts = links.ranges.texts(tables);
        texts.extend(range_texts.iter().map(String::as_str));
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
        definitions.kernels.clone_from(&regions.kernels);
        definitions
    }

    fn number_regions(&mut self, regions: &Regions, symbols: &Symbols) {
        let mut named: BTreeMap<RegionText, Vec<RegionNumber>> = BTreeMap::new();
        for (number, key) in regions.used() {
            named.entry(region_text(key, regions, symbols)).or_default().push(number);
        }
        for (text, numbers) in named {
            let reference = RegionRef::new(index_u32(self.regions.len()));
            self.regions.push(text);
            for number in numbers {
                put(&mut self.by_region, number.index(), reference, RegionRef::UNDEFINED);
            }
        }
        let recorded: BTreeSet<RegionRef> = regions.recorded().map(|number| self.region(number)).gather();
        self.parameters = recorded.into_iter().collect();
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

    /// The parameter of a region.
    pub fn parameter(&self, region: RegionRef) -> ParameterRef {
        self.parameters.binary_search(&region).map_or(ParameterRef::UNDEFINED, |at| ParameterRef::new(index_u32(at)))
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

/// GPU fields of a part's manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuWorkDefinition {
    /// The way GPU work was last recorded: `off`, `cupti`, `events`; empty if the journal has no notice.
    pub backend: String,
    /// Decisions and failures of GPU recording, in order.
    pub notices: Vec<String>,
    /// Counts by name, see [`nccl_events::schema::GpuCounts`]; zeros are left out.
    pub counts: BTreeMap<String, u64>,
    pub clocks: Vec<SampleClockDefinition>,
    pub devices: Vec<DeviceDefinition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleClockDefinition {
    /// `cupti` or `events`.
    pub clock: String,
    /// The device that the clock is for; `None` for all.
    pub ordinal: Option<u32>,
    #[serde(flatten)]
    pub quality: SampleQuality,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceDefinition {
    /// CUDA's device number in this process.
    pub ordinal: u32,
    pub name: String,
    /// As `nvidia-smi` writes it; empty if unknown.
    pub uuid: String,
    /// Domain, bus and device: `0000:41:00.0`; empty if unknown.
    pub pci: String,
    /// Whether the device is a part of a GPU (MIG).
    pub is_mig: bool,
    /// CUDA version that the driver supports: `12.8`; empty if unknown.
    pub driver: String,
    /// Compute capability: `9.0`.
    pub compute_capability: String,
    pub multiprocessors: u32,
}

impl DeviceDefinition {
    /// What identifies the device among the devices of a host; `None` if nothing does.
    pub fn identity(&self) -> Option<&str> {
        [self.uuid.as_str(), self.pci.as_str()].into_iter().find(|known| !known.is_empty())
    }

    /// The archive's statements about the device: name and value, without unknown values.
    pub fn statements(&self) -> Vec<(&'static str, String)> {
        let known = |number: u32| match number {
            0 => String::new(),
            number => number.to_string(),
        };
        let all = [
            ("UUID", self.uuid.clone()),
            ("name", self.name.clone()),
            ("PCI", self.pci.clone()),
            ("MIG", if self.is_mig { "yes" } else { "no" }.to_owned()),
            ("driver", self.driver.clone()),
            ("compute capability", self.compute_capability.clone()),
            ("multiprocessors", known(self.multiprocessors)),
        ];
        all.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }
}

fn device(device: &Device<Symbol>, symbols: &Symbols) -> DeviceDefinition {
    let Device { pci_domain, pci_bus, pci_device, driver_version, .. } = *device;
    let has_pci = (pci_domain, pci_bus, pci_device) != (0, 0, 0);
    let [major, minor] = device.compute_capability;
    DeviceDefinition {
        ordinal: device.ordinal,
        name: symbols.text(device.name).to_owned(),
        uuid: uuid(device.uuid, device.is_mig),
        pci: if has_pci { format!("{pci_domain:04x}:{pci_bus:02x}:{pci_device:02x}.0") } else { String::new() },
        is_mig: device.is_mig,
        driver: match driver_version {
            0 => String::new(),
            version => format!("{}.{}", version / 1000, version % 1000 / 10),
        },
        compute_capability: match (major, minor) {
            (0, 0) => String::new(),
            (major, minor) => format!("{major}.{minor}"),
        },
        multiprocessors: device.multiprocessors,
    }
}

/// A UUID as `nvidia-smi` writes it.
fn uuid(bytes: [u8; 16], is_mig: bool) -> String {
    if bytes == [0; 16] {
        return String::new();
    }
    let mut text = if is_mig { "MIG" } else { "GPU" }.to_owned();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

pub fn gpu_work(work: &GpuWork, symbols: &Symbols) -> GpuWorkDefinition {
    let clocks = work.clocks.all.iter().map(|(&(clock, ordinal), samples)| SampleClockDefinition {
        clock: match clock {
            GpuClock::Cupti => "cupti",
            GpuClock::Events => "events",
        }
        .to_owned(),
        ordinal: (ordinal != ALL_DEVICES).then_some(ordinal),
        quality: samples.quality.clone(),
    });
    let mut counts = work.fates;
    counts.take_recorded(work.counts);
    let counts = counts.named().filter(|&(_, number)| number > 0);
    let facts = work.devices.facts.values();
    let notices = work.notices.iter();
    let contradicted = work.devices.is_contradicted.then(|| {
        "kernels ran on other devices than their communicators were said to use: the kernels are believed".to_owned()
    });
    GpuWorkDefinition {
        backend: work.backend().map_or("", |backend| backend.name()).to_owned(),
        notices: notices
            .map(|&(backend, text)| format!("{}: {}", backend.name(), symbols.text(text)))
            .chain(contradicted)
            .collect(),
        counts: counts.map(|(name, number)| (name.to_owned(), number)).gather(),
        clocks: clocks.collect(),
        devices: facts.map(|facts| device(facts, symbols)).collect(),
    }
}

/// OTF2's name of a collective.
pub const fn operation(collective: Collective) -> CollectiveOp {
    match collective {
        Collective::AllReduce => CollectiveOp::Allreduce,
        Collective::AllGather => CollectiveOp::Allgather,
        Collective::ReduceScatter => CollectiveOp::ReduceScatterBlock,
        Collective::AlltoAll => CollectiveOp::Alltoall,
        Collective::Broadcast => CollectiveOp::Bcast,
        Collective::Scatter => CollectiveOp::Scatter,
        Collective::Reduce => CollectiveOp::Reduce,
        Collective::Gather => CollectiveOp::Gather,
    }
}

pub fn role(func: &str) -> RegionRole {
    match Function::named(func) {
        Some(Function::Collective(collective)) => match collective.flow() {
            Flow::AllToAll => RegionRole::CollAll2All,
            Flow::FromRoot => RegionRole::CollOne2All,
            Flow::ToRoot => RegionRole::CollAll2One,
        },
        Some(Function::Send | Function::Recv | Function::SendRecv) => RegionRole::Point2Point,
        None => RegionRole::CollOther,
    }
}
