//! Events of Chrome's JSON as text, and PyTorch's names for NCCL's functions and types.

use std::fmt::{Display, Write as _};

use crate::error::Result;
use crate::source::{CHUNK_BYTES, Output};
use crate::values::{Line, Value};
use analysis::{ProgramStep, Trace};
use nccl_events::collective::{Collective, Function, element_bytes};
use nccl_events::ids::index;
use otf2::{AttributeRef, AttributeValue};

/// PyTorch's category of ranges that the program names.
pub(super) const ANNOTATION: &str = "user_annotation";

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Track {
    pub(super) pid: u64,
    pub(super) tid: u64,
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[derive(Debug, Default)]
pub(super) struct Args(String);

impl Args {
    pub(super) fn number(&mut self, name: &str, value: impl Display) {
        self.add(&quoted(name), value);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.add(&quoted(name), quoted(value));
    }

    pub(super) fn attributes(&mut self, trace: &Trace, names: &AttributeNames, all: &[(AttributeRef, AttributeValue)]) {
        for (attribute, value) in all {
            let Some(name) = names.0.get(index(attribute.get())) else {
                continue;
            };
            match Value::new(trace, *value) {
                Value::Unsigned(number) => self.add(name, number),
                Value::Signed(number) => self.add(name, number),
                Value::Real(number) if number.is_finite() => self.add(name, number),
                Value::Real(number) => self.add(name, quoted(&number.to_string())),
                Value::Text(text) => self.add(name, quoted(&text)),
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn add(&mut self, name: &str, value: impl Display) {
        let comma = if self.0.is_empty() { "" } else { ", " };
        // Writing to a `String` cannot fail.
        write!(self.0, "{comma}{name}: {value}").unwrap_or_default();
    }
}

#[derive(Debug)]
pub(super) struct AttributeNames(Vec<String>);

impl AttributeNames {
    pub(super) fn from_trace(trace: &Trace) -> Self {
        let attributes = trace.definitions.attributes.values();
        Self(attributes.map(|attribute| quoted(trace.definitions.string(attribute.name).unwrap_or_default())).collect())
    }
}

/// Writes events to a file, each followed by a comma.
pub(super) struct Events<'a> {
    output: &'a Output,
    /// From the archive's time to the file's, if they differ.
    times: Option<&'a Line>,
    text: String,
    count: u64,
    failed: Result<()>,
}

impl<'a> Events<'a> {
    pub(super) fn new(output: &'a Output, times: Option<&'a Line>) -> Self {
        Self { output, times, text: String::new(), count: 0, failed: Ok(()) }
    }

    pub(super) fn complete(&mut self, category: &str, name: &str, track: Track, times_ns: (u64, u64), args: &Args) {
        let (start_ns, stop_ns) = (self.time_ns(times_ns.0), self.time_ns(times_ns.1));
        self.line(format_args!(
            "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, \
             \"args\": {{{}}}}}",
            quoted(name),
            track.pid,
            track.tid,
            Microseconds(start_ns),
            Microseconds(stop_ns.saturating_sub(start_ns)),
            args.as_str()
        ));
        self.count += 1;
    }

    /// A step of the program, on a track of its rank.
    pub(super) fn step(&mut self, trace: &Trace, step: &ProgramStep, track: Track) {
        let mut args = Args::default();
        args.text("nccl.region", &trace.region_name(step.region));
        self.complete(ANNOTATION, &self::step(step.number), track, (step.start_ns, step.stop_ns), &args);
    }

    /// One end of an arrow from a launch to its kernel.
    pub(super) fn arrow(&mut self, is_begin: bool, id: u64, track: Track, at_ns: u64) {
        let (phase, binding) = if is_begin { ("s", "") } else { ("f", ", \"bp\": \"e\"") };
        let at_ns = self.time_ns(at_ns);
        self.line(format_args!(
            "{{\"ph\": \"{phase}\", \"id\": {id}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"cat\": \"ac2g\", \
             \"name\": \"ac2g\"{binding}}}",
            track.pid,
            track.tid,
            Microseconds(at_ns)
        ));
    }

    pub(super) fn name(&mut self, what: &str, track: Track, name: &str, order: u64) {
        let Track { pid, tid } = track;
        let name = quoted(name);
        self.line(format_args!(
            "{{\"name\": \"{what}_name\", \"ph\": \"M\", \"ts\": 0.000, \"pid\": {pid}, \"tid\": {tid}, \"args\": \
             {{\"name\": {name}}}}},\n{{\"name\": \"{what}_sort_index\", \"ph\": \"M\", \"ts\": 0.000, \"pid\": {pid}, \
             \"tid\": {tid}, \"args\": {{\"sort_index\": {order}}}}}"
        ));
    }

    pub(super) fn finish(mut self) -> Result<u64> {
        self.write();
        self.failed.map(|()| self.count)
    }

    fn time_ns(&self, after_ns: u64) -> u64 {
        match self.times {
            None => after_ns,
            Some(line) => u64::try_from(line.at(after_ns.into())).unwrap_or(0),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        writeln!(self.text, "{line},").unwrap_or_default();
        if self.text.len() >= CHUNK_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_ok() && !self.text.is_empty() {
            self.failed = self.output.append(&self.text);
        }
        self.text.clear();
    }
}

pub(super) struct Microseconds(pub(super) u64);

impl Display for Microseconds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

pub(super) fn collective(region: &str) -> &str {
    let Some(function) = Function::from_region(region) else {
        return region.strip_prefix("nccl").unwrap_or(region);
    };
    match function {
        Function::Collective(Collective::AllReduce) => "allreduce",
        Function::Collective(Collective::AllGather) => "_allgather_base",
        Function::Collective(Collective::ReduceScatter) => "_reduce_scatter_base",
        Function::Collective(Collective::AlltoAll) => "all_to_all",
        Function::Collective(Collective::Broadcast) => "broadcast",
        Function::Collective(Collective::Reduce) => "reduce",
        Function::Collective(Collective::Gather) => "gather",
        Function::Collective(Collective::Scatter) => "scatter",
        Function::Send => "send",
        Function::Recv => "recv",
        // PyTorch has no name for this function.
        Function::SendRecv => function.name(),
    }
}

const TYPES: [(&str, &str); 12] = [
    ("ncclFloat32", "Float"),
    ("ncclFloat16", "Half"),
    ("ncclBfloat16", "BFloat16"),
    ("ncclFloat64", "Double"),
    ("ncclInt8", "Char"),
    ("ncclUint8", "Byte"),
    ("ncclInt32", "Int"),
    ("ncclInt64", "Long"),
    ("ncclUint32", "UInt32"),
    ("ncclUint64", "UInt64"),
    ("ncclFloat8e4m3", "Float8_e4m3fn"),
    ("ncclFloat8e5m2", "Float8_e5m2"),
];

pub(super) fn datatype(nccl: &str) -> &str {
    TYPES.iter().find(|(known, _)| *known == nccl).map_or(nccl, |(_, name)| name)
}

/// How the archive calls `ProfilerStep#65`, a range around each step of torch.profiler: 65 is the range's number.
pub(super) const STEPS_OF_TORCH: &str = "ProfilerStep##";

/// What HTA takes for a step, in the category of ranges.
pub(super) fn step(number: u64) -> String {
    STEPS_OF_TORCH.replace("##", &format!("#{number}"))
}

pub(super) fn is_step(name: &str) -> bool {
    name.starts_with("ProfilerStep")
}

/// Element size in bytes of a type by PyTorch's name; `None` for types that NCCL lacks.
pub(super) fn bytes(datatype: &str) -> Option<u64> {
    match datatype {
        "Bool" => Some(1),
        _ => TYPES.iter().find(|(_, name)| *name == datatype).map(|(nccl, _)| element_bytes(nccl)),
    }
}

/// The name of a kernel from what NCCL reported: without the reduction and the types, which it did not report.
pub(super) fn kernel(region: &str, algorithm: Option<&str>, protocol: Option<&str>) -> String {
    let family = family(region).unwrap_or(Function::SendRecv);
    let mut name = format!("ncclDevKernel_{}", family.name());
    if family != Function::SendRecv {
        for word in [algorithm, protocol].into_iter().flatten() {
            name.push('_');
            name.push_str(word);
        }
    }
    name
}

/// The function whose kernels run `function`: sends, receives and functions made of them share one.
const fn kernels(function: Function) -> Function {
    match function {
        Function::Collective(Collective::AlltoAll | Collective::Gather | Collective::Scatter)
        | Function::Send
        | Function::Recv
        | Function::SendRecv => Function::SendRecv,
        Function::Collective(
            Collective::AllReduce
            | Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Broadcast
            | Collective::Reduce,
        ) => function,
    }
}

/// The function whose kernels run a region, a kernel, or a collective named in PyTorch's way.
pub(super) fn family(name: &str) -> Option<Function> {
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    let parts = [
        ("allreduce", Function::Collective(Collective::AllReduce)),
        ("reducescatter", Function::Collective(Collective::ReduceScatter)),
        ("allgather", Function::Collective(Collective::AllGather)),
        ("send", Function::Send),
        ("recv", Function::Recv),
        ("alltoall", Function::Collective(Collective::AlltoAll)),
        ("broadcast", Function::Collective(Collective::Broadcast)),
        ("gather", Function::Collective(Collective::Gather)),
        ("scatter", Function::Collective(Collective::Scatter)),
        ("reduce", Function::Collective(Collective::Reduce)),
        ("barrier", Function::Collective(Collective::AllReduce)),
    ];
    parts.iter().find(|(part, _)| letters.contains(part)).map(|(_, function)| kernels(*function))
}

pub(super) fn is_nccl(kernel: &str) -> bool {
    kernel.starts_with("nccl") && kernel.contains("Kernel")
}

#[cfg(test)]
mod tests {
    use super::{family, is_nccl, kernel};
    use nccl_events::collective::Function;

    #[test]
    fn names_of_kernels_say_their_function() {
        let names = [
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Some("AllReduce")),
            ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", Some("Broadcast")),
            ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", Some("ReduceScatter")),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Some("SendRecv")),
            ("ncclDevKernel_Generic_1", None),
            ("_allgather_base", Some("AllGather")),
            ("all_to_allv", Some("SendRecv")),
        ];
        for (name, wanted) in names {
            assert_eq!(family(name).map(Function::name), wanted, "{name}");
        }
    }

    #[test]
    fn names_that_are_made_are_nccl_s() {
        assert_eq!(kernel("AllReduce", Some("RING"), Some("LL")), "ncclDevKernel_AllReduce_RING_LL");
        assert_eq!(kernel("AlltoAll", None, None), "ncclDevKernel_SendRecv");
        assert!(is_nccl(&kernel("Send", None, None)) && !is_nccl("void at::native::nccl"));
    }
}
