//! Named values and their JSON: on one line, in a fixed order, with times exact to the nanosecond. Also the fields of
//! journals' records as such values: of events, states, GPU records and NVTX ranges.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Display;
use std::io::Write as _;

use analysis::units;
use clocks::gpu::SampleClocks;
use clocks::ticks::HostClock;
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::event::declare::Style;
use nccl_events::gpu::{ClockSample, GpuClock, GpuRecord, extent};
use nccl_events::ids::index;
use nccl_events::range::{Range, RangeCount, RangeField, RangeFields, RangeRecord};
use nccl_events::schema::GpuCounts;
use nccl_events::{Body, Kind, NetData, StateArgs, event};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Text(Cow<'a, str>),
    Unsigned(u64),
    Signed(i64),
    Flag(bool),
    /// A handle or an address; 0 is NULL.
    Address(u64),
    Float(f64),
    /// A time or duration in ns. JSON has it in µs, written digit by digit: a float does not hold long times exactly.
    Time(u64),
    Several(Vec<Self>),
    Object(List<'a>),
    /// Like `Object`, with names that are not known at compile time.
    Attributes(Vec<(String, Self)>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// CLOCK_MONOTONIC in ns; ticks where too few clock readings were recorded.
    pub(crate) ns: u64,
    pub(crate) tid: u32,
}

pub(crate) type List<'a> = Vec<(&'static str, Value<'a>)>;

macro_rules! numbers {
    ($($number:ty => $variant:ident),*) => {
        $(impl From<$number> for Value<'_> {
            fn from(number: $number) -> Self {
                Self::$variant(number.into())
            }
        })*
    };
}

numbers! {
    u8 => Unsigned, u16 => Unsigned, u32 => Unsigned, u64 => Unsigned,
    i8 => Signed, i16 => Signed, i32 => Signed, i64 => Signed,
    f32 => Float, f64 => Float, bool => Flag, String => Text
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

#[derive(Default)]
pub(crate) struct Json(Vec<u8>);

impl Json {
    pub(crate) fn line(&mut self, fill: impl FnOnce(&mut Self)) {
        self.0.clear();
        self.braced(fill);
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.0
    }

    #[inline]
    pub(crate) fn put<'a>(&mut self, name: &'static str, value: impl Into<Value<'a>>) {
        self.name(name);
        self.value(&value.into());
    }

    pub(crate) fn put_joined(&mut self, name: &'static str, [first, second]: [&'static str; 2]) {
        self.name(name);
        for part in ["\"", first, second, "\""] {
            self.0.extend_from_slice(part.as_bytes());
        }
    }

    #[inline]
    pub(crate) fn object(&mut self, name: &'static str, fill: impl FnOnce(&mut Self)) {
        self.name(name);
        self.braced(fill);
    }

    fn braced(&mut self, fill: impl FnOnce(&mut Self)) {
        self.0.push(b'{');
        fill(self);
        self.0.push(b'}');
    }

    #[inline]
    fn name(&mut self, name: &'static str) {
        self.0.reserve(name.len() + 4);
        self.comma();
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn comma(&mut self) {
        if !matches!(self.0.last(), Some(b'{' | b'[')) {
            self.0.push(b',');
        }
    }

    fn plain<T: Serialize + ?Sized>(&mut self, value: &T) {
        // Writing to memory cannot fail, and these values have no keys that JSON cannot represent.
        let _infallible = serde_json::to_writer(&mut self.0, value);
    }

    fn value(&mut self, value: &Value<'_>) {
        match value {
            Value::Text(text) => self.plain(&**text),
            Value::Unsigned(number) => self.plain(number),
            Value::Signed(number) => self.plain(number),
            Value::Flag(is_set) => self.plain(is_set),
            Value::Address(0) => self.plain("null"),
            Value::Address(address) => self.address(*address),
            // `{:?}` writes as few digits as read back as the same number. JSON has no infinities: those are text.
            Value::Float(number) if number.is_finite() => {
                let _infallible = write!(self.0, "{number:?}");
            }
            Value::Float(number) => self.plain(&number.to_string()),
            Value::Time(ns) => {
                self.plain(&(ns / 1000));
                let digit = |unit: u64| b'0' + u8::try_from(ns / unit % 10).unwrap_or(0);
                self.0.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
            }
            Value::Several(values) => {
                self.0.push(b'[');
                for value in values {
                    self.comma();
                    self.value(value);
                }
                self.0.push(b']');
            }
            Value::Object(list) => self.braced(|json| {
                for (name, value) in list {
                    json.name(name);
                    json.value(value);
                }
            }),
            Value::Attributes(list) => self.braced(|json| {
                for (name, value) in list {
                    json.comma();
                    json.plain(name);
                    json.0.push(b':');
                    json.value(value);
                }
            }),
        }
    }

    /// Writes `{:#x}` in a fraction of its time, which counts because most fields of a line are addresses.
    fn address(&mut self, mut address: u64) {
        let mut text = *b"0000000000000000\"";
        let mut first = text.len() - 1;
        while address != 0 {
            first -= 1;
            text[first] = b"0123456789abcdef"[usize::from(address.to_le_bytes()[0] & 0xf)];
            address >>= 4;
        }
        self.0.extend_from_slice(b"\"0x");
        self.0.extend_from_slice(&text[first..]);
    }
}

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Unsigned(number) => number.fmt(f),
            Self::Signed(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Flag(is_set) => f.write_str(if *is_set { "yes" } else { "no" }),
            Self::Address(0) => f.write_str("NULL"),
            Self::Address(address) => write!(f, "{address:#x}"),
            Self::Time(ns) => f.write_str(&units::time(*ns)),
            Self::Several(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                f.write_str(&values.join(","))
            }
            Self::Object(list) => f.write_str(pairs(list).trim_start()),
            Self::Attributes(list) => f.write_str(pairs(list).trim_start()),
        }
    }
}

/// Fields for people, each as ` name=value`.
pub(crate) fn pairs<N: Display>(fields: &[(N, Value<'_>)]) -> String {
    fields.iter().map(|(name, value)| format!(" {name}={value}")).collect()
}

pub(crate) const GPU_KIND: &str = "Gpu";

/// A record about GPU work or devices, which the plugin made by itself and not because of a callback.
#[derive(Debug)]
pub(crate) struct GpuEntry {
    /// When the work began if known, else when it was recorded.
    pub(crate) when: Moment,
    /// Duration of the work; `None` if it is unknown or the record marks an instant.
    pub(crate) duration_ns: Option<u64>,
    /// The launch or communicator that the record refers to; 0 for none.
    pub(crate) id: u64,
    pub(crate) record: GpuRecord<Symbol>,
}

pub(crate) fn place(all: &mut [GpuEntry], ticks: &[u64], clock: &HostClock) {
    let samples = all.iter().zip(ticks).filter_map(|(entry, ticks)| {
        let GpuRecord::Clock(sample) = entry.record else {
            return None;
        };
        let until = ticks.saturating_add(sample.uncertainty_ticks);
        let uncertainty_ticks = clock.nanoseconds(until).saturating_sub(entry.when.ns);
        Some((entry.when.ns, ClockSample { uncertainty_ticks, ..sample }))
    });
    let clocks = SampleClocks::from_samples(samples);
    for entry in all {
        let (clock, device, start_ns, end_ns) = match entry.record {
            GpuRecord::Kernel(kernel) => (GpuClock::Cupti, kernel.device, kernel.start_ns, kernel.end_ns),
            GpuRecord::Copy(copy) => (GpuClock::Cupti, copy.device, copy.start_ns, copy.end_ns),
            GpuRecord::LaunchTime(time) => (GpuClock::Events, time.ordinal, time.start_ns, time.end_ns),
            _ => continue,
        };
        if let Some((from, to)) = clocks.place(clock, device, start_ns, end_ns) {
            entry.when.ns = from.host_ns;
            entry.duration_ns = Some(to.host_ns - from.host_ns);
        }
    }
}

impl GpuEntry {
    pub(crate) const fn kind(&self) -> &'static str {
        match self.record {
            GpuRecord::Device(_) => "device",
            GpuRecord::DeviceOfCommunicator { .. } => "communicatorDevice",
            GpuRecord::Clock(_) => "clock",
            GpuRecord::Kernel(_) => "kernel",
            GpuRecord::Copy(_) => "copy",
            GpuRecord::LaunchTime(_) => "launchTime",
            GpuRecord::Notice { .. } => "notice",
            GpuRecord::Counts(_) => "counts",
        }
    }

    /// Whether people see the record, too: clock readings and running totals are for programs only.
    pub(crate) const fn is_for_people(&self) -> bool {
        !matches!(self.record, GpuRecord::Clock(_) | GpuRecord::Counts(_))
    }

    pub(crate) fn details<'a>(&self, symbols: &'a Symbols) -> List<'a> {
        let mut list = List::new();
        let mut add = |label, style, value| {
            list.extend(read_value(style, value, symbols).map(|value| (label, value)));
        };
        match self.record {
            GpuRecord::Device(device) => device.each(&mut add),
            GpuRecord::DeviceOfCommunicator { ordinal } => {
                add("ordinal", Style::Plain, ordinal.into());
            }
            GpuRecord::Clock(sample) => sample.each(&mut add),
            GpuRecord::Kernel(kernel) => kernel.each(&mut add),
            GpuRecord::Copy(copy) => copy.each(&mut add),
            GpuRecord::LaunchTime(time) => time.each(&mut add),
            GpuRecord::Notice { backend, text } => {
                add("backend", Style::Plain, event::Value::Text(backend.name()));
                add("text", Style::Plain, event::Value::Name(text));
            }
            GpuRecord::Counts(counts) => {
                let mut named = GpuCounts::default();
                named.take_recorded(counts);
                for (name, number) in named.named().take(counts.len()) {
                    add(name, Style::Plain, event::Value::Unsigned(number));
                }
            }
        }
        list
    }
}

pub(crate) const RANGE_KIND: &str = "Range";

/// A record about an NVTX range in a journal.
#[derive(Debug)]
pub(crate) struct RangeEntry {
    pub(crate) when: Moment,
    /// The recorder's id of a started range; 0 for pushed ranges and marks.
    pub(crate) id: u64,
    pub(crate) record: RangeRecord<Symbol>,
}

impl RangeEntry {
    pub(crate) const fn kind(&self) -> &'static str {
        match self.record {
            RangeRecord::Push { .. } => "push",
            RangeRecord::Pop { .. } => "pop",
            RangeRecord::Mark(_) => "mark",
            RangeRecord::Start { .. } => "start",
            RangeRecord::End { .. } => "end",
            RangeRecord::Counts(_) => "counts",
        }
    }

    /// Whether people see the record, too: running totals are for programs only.
    pub(crate) const fn is_for_people(&self) -> bool {
        !matches!(self.record, RangeRecord::Counts(_))
    }

    pub(crate) fn details<'a>(&self, symbols: &'a Symbols) -> List<'a> {
        let mut list = List::new();
        match &self.record {
            RangeRecord::Push { level, is_repeated, range } => {
                list.push(("level", (*level).into()));
                repeated(*is_repeated, &mut list);
                named(range, symbols, &mut list);
            }
            RangeRecord::Start { is_repeated, range } => {
                repeated(*is_repeated, &mut list);
                named(range, symbols, &mut list);
            }
            RangeRecord::Mark(range) => named(range, symbols, &mut list),
            RangeRecord::Pop { level, fields: numbers } => {
                list.push(("level", (*level).into()));
                fields(numbers, &mut list);
            }
            RangeRecord::End { fields: numbers } => fields(numbers, &mut list),
            RangeRecord::Counts(totals) => {
                let name = |count| match count {
                    RangeCount::OtherNames => "otherNames",
                    RangeCount::TooDeep => "tooDeep",
                    RangeCount::UnbalancedPops => "unbalancedPops",
                    RangeCount::Lost => "lost",
                };
                list.extend(
                    RangeCount::ALL.into_iter().zip(totals).map(|(count, total)| (name(count), (*total).into())),
                );
            }
        }
        list
    }
}

fn repeated(is_repeated: bool, list: &mut List<'_>) {
    if is_repeated {
        list.push(("isRepeated", true.into()));
    }
}

fn named<'a>(range: &Range<Symbol>, symbols: &'a Symbols, list: &mut List<'a>) {
    for (label, name) in [("domain", range.domain), ("name", range.name), ("categoryName", range.category)] {
        if name != Symbol::NONE {
            list.push((label, symbols.text(name).into()));
        }
    }
    fields(&range.fields, list);
}

fn fields(fields: &RangeFields, list: &mut List<'_>) {
    list.extend(fields.iter().map(|(field, number)| {
        let value = match field {
            RangeField::Signed | RangeField::SplitColor | RangeField::SplitKey => Value::Signed(number.cast_signed()),
            RangeField::Float => Value::Float(f64::from_bits(number)),
            _ => Value::Unsigned(number),
        };
        (field.name(), value)
    }));
}

/// The fields of an event or state, named as in `docs/REFERENCE.md` §10.
pub(crate) fn details<'a>(fields: &Body<Symbol>, symbols: &'a Symbols) -> List<'a> {
    let mut list = List::new();
    each_detail(fields, symbols, |label, value| list.push((label, value)));
    list
}

pub(crate) fn each_detail<'a>(
    fields: &Body<Symbol>,
    symbols: &'a Symbols,
    mut detail: impl FnMut(&'static str, Value<'a>),
) {
    // An unknown event has its type only, which the listing shows for every event.
    if fields.kind() == Kind::Unknown {
        return;
    }
    fields.each(|label, style, value| {
        if let Some(value) = read_value(style, value, symbols) {
            detail(label, value);
        }
    });
}

/// A field as it is listed; `None` if the value is absent.
pub(crate) fn read_value(style: Style, value: event::Value<Symbol>, symbols: &Symbols) -> Option<Value<'_>> {
    Some(match (value, style) {
        (event::Value::Name(Symbol::NONE), _) => return None,
        (event::Value::Unsigned(0) | event::Value::Flag(false), Style::Rare) => return None,
        (event::Value::Unsigned(address), Style::Address) => Value::Address(address),
        (event::Value::Unsigned(number), _) => Value::Unsigned(number),
        (event::Value::Signed(number), _) => Value::Signed(number),
        (event::Value::Flag(flag), _) => Value::Flag(flag),
        (event::Value::Name(name), _) => symbols.text(name).into(),
        (event::Value::Text(text), _) => text.into(),
        (event::Value::Net(data), _) => Value::Object(net(data)?),
        (event::Value::Uuid(bytes), _) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        (event::Value::Extent(sizes), _) => extent(sizes).into(),
        (event::Value::Version(parts), _) => Value::Several(parts.map(Value::from).into()),
    })
}

pub(crate) fn arguments(args: StateArgs, mut argument: impl FnMut(&'static str, Value<'static>)) {
    match args {
        StateArgs::None => {}
        StateArgs::ProxyOp { bytes, steps } => {
            argument("transSize", bytes.into());
            argument("steps", steps.into());
        }
        StateArgs::ProxyStep { bytes } => argument("transSize", bytes.into()),
        StateArgs::ProxyCtrl { appended } => argument("appendedProxyOps", appended.into()),
        StateArgs::GpuTime { gpu_ns } => argument("pTimer", gpu_ns.into()),
        StateArgs::NetPlugin { data } => {
            if let Some(net) = net(data) {
                argument("net", Value::Object(net));
            }
        }
    }
}

fn net(data: NetData) -> Option<List<'static>> {
    match data {
        NetData::Opaque => None,
        NetData::IbQueuePair { device, work_request, opcode, queue_pair, bytes } => Some(vec![
            ("type", "ibQueuePair".into()),
            ("device", device.into()),
            ("workRequest", work_request.into()),
            ("opcode", opcode.into()),
            ("queuePair", queue_pair.into()),
            ("bytes", bytes.into()),
        ]),
        NetData::Socket { descriptor, operation, bytes } => Some(vec![
            ("type", "socket".into()),
            ("descriptor", descriptor.into()),
            ("operation", operation.into()),
            ("bytes", bytes.into()),
        ]),
    }
}

/// The names of states without the prefix `ncclProfiler`; the index is NCCL's number.
const NAMES: [&str; nccl_events::state::LAST as usize + 1] = [
    "ProxyOpSendPosted",
    "ProxyOpSendRemFifoWait",
    "ProxyOpSendTransmitted",
    "ProxyOpSendDone",
    "ProxyOpRecvPosted",
    "ProxyOpRecvReceived",
    "ProxyOpRecvTransmitted",
    "ProxyOpRecvDone",
    "ProxyStepSendGPUWait",
    "ProxyStepSendWait",
    "ProxyStepRecvWait",
    "ProxyStepRecvFlushWait",
    "ProxyStepRecvGPUWait",
    "ProxyCtrlIdle",
    "ProxyCtrlActive",
    "ProxyCtrlSleep",
    "ProxyCtrlWakeup",
    "ProxyCtrlAppend",
    "ProxyCtrlAppendEnd",
    "ProxyOpInProgress",
    "ProxyStepSendPeerWait",
    "NetPluginUpdate",
    "KernelChStop",
    "GroupStartApiStop",
    "GroupEndApiStart",
    "CeCollStart",
    "CeCollComplete",
    "CeSyncStart",
    "CeSyncComplete",
    "CeBatchStart",
    "CeBatchComplete",
    "KernelPhaseStop",
];

pub(crate) fn name(state: u32) -> Cow<'static, str> {
    NAMES.get(index(state)).map_or_else(|| state.to_string().into(), |name| Cow::Borrowed(*name))
}

pub(crate) const fn has_arguments(state: u32) -> bool {
    matches!(state, 0..=18 | 20..=22 | 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive() {
        let several = [Value::Float(0.1), Value::Float(2e300), Value::Float(f64::NAN), "".into()];
        let list = vec![
            ("a", Value::from("x\"\\\n")),
            ("b", u64::MAX.into()),
            ("c", Value::Time(8_993_953_357_171_003)),
            ("d", Value::Address(0)),
            ("i", Value::Address(0x10)),
            ("j", Value::Address(u64::MAX)),
            ("k", Value::Attributes(vec![("\"".to_owned(), (-1_i64).into())])),
            ("e", Value::Object(vec![("f", true.into())])),
            ("g", Value::Several(several.into())),
            ("h", Value::Object(List::new())),
        ];
        let mut json = Json::default();
        json.line(|json| list.into_iter().for_each(|(name, value)| json.put(name, value)));
        assert_eq!(
            str::from_utf8(json.text()).expect("JSON"),
            r#"{"a":"x\"\\\n","b":18446744073709551615,"c":8993953357171.003,"d":"null","i":"0x10","j":"0xffffffffffffffff","k":{"\"":-1},"e":{"f":true},"g":[0.1,2e300,"NaN",""],"h":{}}"#
        );
    }
}
