//! Reads from a trace its rank and process, its time span, and its NCCL kernels.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nccl_events::collective::Function;
use nccl_events::schema::attribute::AttributeId;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::stream::{self, Reader};
use crate::error::{Error, Result};
use crate::kineto::pytorch;

/// What is kept of a trace until its copy is written. A real one of this size has about 2 GiB of launches and kernels.
const MOST_KEPT_BYTES: usize = 256 << 20;

#[derive(Debug, Default)]
pub(in crate::kineto) struct Foreign {
    pub(super) path: PathBuf,
    /// Origin of its times, in ns since 1970.
    pub(super) base_ns: i128,
    pub(super) rank: u32,
    /// The processes of operators and launches.
    pub(super) processes: BTreeSet<u64>,
    pub(super) largest_pid: u64,
    /// From its first event to its last, in ns since 1970.
    pub(super) span_ns: [i128; 2],
    /// Sorted by start.
    pub(super) kernels: Vec<Kernel>,
}

#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) event: u64,
    /// In ns since 1970.
    pub(super) times_ns: [i128; 2],
    pub(super) launched_ns: Option<i128>,
    pub(super) family: Option<Function>,
    pub(super) group_size: Option<u64>,
    /// Job ranks in its group; only the first ones of a large group.
    pub(super) ranks: Vec<u32>,
    pub(super) bytes: Option<[u64; 2]>,
    correlation: Option<u64>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    cat: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    dur: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct DistributedInfo {
    rank: Option<u32>,
}

#[derive(Default)]
struct Reading {
    found: Foreign,
    base_ns: Option<i128>,
    rank: Option<u32>,
    events: u64,
    launches: Vec<(u64, i128)>,
    has_ours: bool,
    kept_bytes: usize,
}

impl Foreign {
    pub(in crate::kineto) fn read(path: &Path) -> Result<Self> {
        let mut reading = Reading { found: Self { path: path.to_owned(), ..Self::default() }, ..Reading::default() };
        stream::read(path, &mut reading)?;
        let name = path.display();
        let refused = |why: &str| Err(Error::Refused(format!("{name} {why}")));
        let Some(base_ns) = reading.base_ns else {
            return refused(
                "has no baseTimeNanoseconds: what its times count from is not known (PyTorch 2.3 and later write it)",
            );
        };
        let Some(rank) = reading.rank else {
            return refused(
                "has no distributedInfo.rank: it is not known which rank it is of (PyTorch writes it where \
                 torch.distributed was initialised before the profiler stopped)",
            );
        };
        if reading.has_ours {
            return refused("has the archive's events already: give the file that torch.profiler wrote");
        }
        let mut found = Self { base_ns, rank, ..reading.found };
        if found.span_ns[0] > found.span_ns[1] || found.processes.is_empty() {
            return refused("has no events of a process");
        }
        reading.launches.sort_unstable();
        for kernel in &mut found.kernels {
            let at = |wanted| reading.launches.binary_search_by_key(&wanted, |(correlation, _)| *correlation).ok();
            let launch = kernel.correlation.and_then(at).and_then(|at| reading.launches.get(at));
            kernel.launched_ns = launch.map(|(_, at_ns)| at_ns + base_ns);
            kernel.times_ns = kernel.times_ns.map(|at_ns| at_ns + base_ns);
        }
        found.kernels.sort_by_key(|kernel| kernel.times_ns);
        found.span_ns = found.span_ns.map(|at_ns| at_ns + base_ns);
        Ok(found)
    }
}

impl Reading {
    fn process(&mut self, pid: u64) -> Result<()> {
        if self.found.processes.insert(pid) { self.keep(2 * size_of::<u64>()) } else { Ok(()) }
    }

    /// Counts what is kept of an event, so that a compressed file of a few MiB does not fill the memory.
    fn keep(&mut self, bytes: usize) -> Result<()> {
        self.kept_bytes += bytes;
        if self.kept_bytes <= MOST_KEPT_BYTES {
            return Ok(());
        }
        let (kernels, launches, mebibytes) = (self.found.kernels.len(), self.launches.len(), MOST_KEPT_BYTES >> 20);
        Err(Error::Refused(format!(
            "{} has more launches and kernels of NCCL's than fit into {mebibytes} MiB ({launches} and {kernels} up to \
             there): profile fewer steps with torch.profiler.schedule",
            self.found.path.display()
        )))
    }
}

impl Reader for Reading {
    fn member(&mut self, name: &str, value: &RawValue) -> Result<()> {
        match name {
            "baseTimeNanoseconds" => self.base_ns = value.get().parse().ok(),
            "distributedInfo" => {
                let info: Option<DistributedInfo> = serde_json::from_str(value.get()).ok();
                self.rank = info.and_then(|info| info.rank);
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_events(&mut self) -> Result<()> {
        self.found.span_ns = [i128::MAX, i128::MIN];
        Ok(())
    }

    fn event(&mut self, event: &RawValue) -> Result<()> {
        let number = self.events;
        self.events += 1;
        // Events with types that the profiler does not write are left unchanged.
        let Ok(event) = serde_json::from_str::<Event<'_>>(event.get()) else {
            return Ok(());
        };
        let pid = event.pid.and_then(|pid| pid.get().parse().ok());
        self.found.largest_pid = self.found.largest_pid.max(pid.unwrap_or(0));
        let (Some(pid), Some(start_ns), Some(length_ns)) = (pid, nanoseconds(event.ts), nanoseconds(event.dur)) else {
            return Ok(());
        };
        let stop_ns = start_ns + length_ns;
        let span_ns = &mut self.found.span_ns;
        *span_ns = [span_ns[0].min(start_ns), span_ns[1].max(stop_ns)];
        let name = event.name.unwrap_or_default();
        match event.cat.as_deref() {
            Some("cuda_runtime" | "cuda_driver") if name.contains("Launch") => {
                let correlation = arguments(event.args).get("correlation").and_then(Value::as_u64);
                self.launches.extend(correlation.map(|correlation| (correlation, start_ns)));
                self.keep(size_of::<(u64, i128)>())?;
                self.process(pid)?;
            }
            Some("cpu_op" | "cuda_runtime" | "cuda_driver") => self.process(pid)?,
            Some("kernel") if pytorch::is_nccl(&name) => {
                let arguments = arguments(event.args);
                self.has_ours |= arguments.contains_key(AttributeId::Event.name());
                let kernel = Kernel { event: number, times_ns: [start_ns, stop_ns], ..kernel(&name, &arguments) };
                self.keep(size_of::<Kernel>() + size_of_val(kernel.ranks.as_slice()))?;
                self.found.kernels.push(kernel);
            }
            _ => {}
        }
        Ok(())
    }

    fn end_events(&mut self) -> Result<()> {
        Ok(())
    }
}

fn arguments(args: Option<&RawValue>) -> serde_json::Map<String, Value> {
    args.and_then(|args| serde_json::from_str(args.get()).ok()).unwrap_or_default()
}

fn kernel(name: &str, arguments: &serde_json::Map<String, Value>) -> Kernel {
    let number = |name| arguments.get(name).and_then(Value::as_u64);
    let text = |name| arguments.get(name).and_then(Value::as_str);
    let element = text("dtype").and_then(pytorch::bytes).filter(|bytes| *bytes > 0);
    let bytes = |name| Some(number(name)?.saturating_mul(element?));
    let ranks = text("Process Group Ranks").unwrap_or_default().trim_matches(['[', ']']);
    Kernel {
        family: pytorch::family(name).or_else(|| pytorch::family(text("Collective name")?)),
        group_size: number("Group size"),
        ranks: ranks.split(", ").map_while(|rank| rank.trim().parse().ok()).collect(),
        bytes: bytes("In msg nelems").zip(bytes("Out msg nelems")).map(|(given, gotten)| [given, gotten]),
        correlation: number("correlation"),
        ..Kernel::default()
    }
}

/// Converts a decimal number of µs to ns exactly; a float that counts from 1970 would be inexact.
fn nanoseconds(microseconds: Option<&RawValue>) -> Option<i128> {
    let text = microseconds?.get().trim_matches('"');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    match (whole.parse::<i128>(), digits.parse::<i128>()) {
        (Ok(whole), Ok(fraction)) if !text.starts_with('-') => Some(whole * 1000 + fraction),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{MOST_KEPT_BYTES, Reading, nanoseconds};
    use crate::kineto::foreign::stream::Reader as _;

    #[test]
    fn what_is_kept_of_a_trace_is_limited() {
        let event = |category: &str, name: &str, ranks: usize| {
            let ranks = vec!["1"; ranks].join(", ");
            let text = format!(
                r#"{{"cat": "{category}", "name": "{name}", "pid": 1, "ts": 1, "dur": 1, "args": {{"correlation": 1,
                "Process Group Ranks": "[{ranks}]"}}}}"#
            );
            RawValue::from_string(text).expect("JSON")
        };
        for (name, event) in [
            ("kernel", event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1000)),
            ("launch", event("cuda_runtime", "cudaLaunchKernel", 0)),
        ] {
            let mut reading = Reading::default();
            reading.event(&event).expect("the first");
            let each = reading.kept_bytes;
            assert!(each >= if name == "kernel" { 4000 } else { 24 }, "{name}: {each}");
            reading.kept_bytes = MOST_KEPT_BYTES - 1;
            let error = reading.event(&event).expect_err("too many").to_string();
            assert!(error.contains("256 MiB") && error.contains("schedule"), "{error}");
        }
    }

    #[test]
    fn times_are_exact() {
        let read = |text: &str| nanoseconds(Some(&RawValue::from_string(text.to_owned()).expect("JSON")));
        assert_eq!(read("4458677009853.422"), Some(4_458_677_009_853_422));
        assert_eq!(read("12"), Some(12_000));
        assert_eq!(read("1.5"), Some(1_500));
        assert_eq!(read("0.0009"), Some(0));
        assert_eq!(read("\"Spans\""), None);
        assert_eq!(read("-1.5"), None);
    }
}
