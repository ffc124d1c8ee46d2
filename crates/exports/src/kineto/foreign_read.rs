//! Reads a torch.profiler trace event by event, each as its original text, and finds its rank and process, its time
//! span, and its NCCL kernels.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::kineto::json;
use crate::source::is_compressed;
use flate2::read::MultiGzDecoder;
use nccl_events::collective::Function;
use nccl_events::schema::attribute::AttributeId;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// What is kept of a trace until its copy is written. A real one of this size has about 2 GiB of launches and kernels.
const MOST_KEPT_BYTES: usize = 256 << 20;

#[derive(Debug, Default)]
pub(crate) struct Foreign {
    pub(super) path: PathBuf,
    /// Origin of its times, in ns since 1970.
    pub(super) base_ns: i128,
    pub(super) rank: u32,
    /// The processes of operators and launches.
    pub(super) processes: BTreeSet<u64>,
    pub(super) largest_pid: u64,
    /// From its first event to its last, in ns since 1970.
    pub(super) span_ns: [i128; 2],
    pub(super) has_steps: bool,
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
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let mut reading = Reading { found: Self { path: path.to_owned(), ..Self::default() }, ..Reading::default() };
        read(path, &mut reading)?;
        let name = path.display();
        let refused = |why: &str| Err(Error::Refused(format!("{name} {why}")));
        let Some(base_ns) = reading.base_ns else {
            return refused(
                "has no baseTimeNanoseconds: the origin of its times is unknown (PyTorch 2.3 and later writes it)",
            );
        };
        let Some(rank) = reading.rank else {
            return refused(
                "has no distributedInfo.rank: its rank is unknown (PyTorch writes it if torch.distributed was \
                initialised before the profiler stopped)",
            );
        };
        if reading.has_ours {
            return refused("already has the archive's events: name the file that torch.profiler wrote");
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
        self.found.has_steps |= json::is_step(&name);
        match event.cat.as_deref() {
            Some("cuda_runtime" | "cuda_driver") if name.contains("Launch") => {
                let correlation = arguments(event.args).get("correlation").and_then(Value::as_u64);
                self.launches.extend(correlation.map(|correlation| (correlation, start_ns)));
                self.keep(size_of::<(u64, i128)>())?;
                self.process(pid)?;
            }
            Some("cpu_op" | "cuda_runtime" | "cuda_driver") => self.process(pid)?,
            Some("kernel") if json::is_nccl(&name) => {
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
    let element = text("dtype").and_then(json::bytes).filter(|bytes| *bytes > 0);
    let bytes = |name| Some(number(name)?.saturating_mul(element?));
    let ranks = text("Process Group Ranks").unwrap_or_default().trim_matches(['[', ']']);
    Kernel {
        family: json::family(name).or_else(|| json::family(text("Collective name")?)),
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

/// A value is in memory as a whole. Those of torch.profiler have some KiB, but a compressed file of a few MiB may have
/// one of many GiB.
const MOST_VALUE_BYTES: usize = 16 << 20;

/// What is done with the members and the events of a trace file, each given as its original text.
pub(super) trait Reader {
    /// A member of the file's top-level object other than the events.
    fn member(&mut self, name: &str, value: &RawValue) -> Result<()>;
    fn begin_events(&mut self) -> Result<()>;
    fn event(&mut self, event: &RawValue) -> Result<()>;
    fn end_events(&mut self) -> Result<()>;
}

pub(super) fn read(path: &Path, reader: &mut impl Reader) -> Result<()> {
    let file = regular_files::open_named(path, u64::MAX).map_err(Error::io("read", path))?;
    let input: Box<dyn Read> =
        if is_compressed(path) { Box::new(MultiGzDecoder::new(BufReader::new(file))) } else { Box::new(file) };
    let left = Cell::new(MOST_VALUE_BYTES);
    let input = BufReader::with_capacity(1 << 20, Limited { input, left: &left });
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let mut failed = None;
    let read = deserializer.deserialize_map(Members { reader, left: &left, failed: &mut failed });
    match (failed, read.and_then(|()| deserializer.end())) {
        (Some(error), _) => Err(error),
        (None, Err(error)) if error.is_io() => Err(Error::io("read", path)(error.into())),
        (None, Err(error)) => {
            Err(Error::Refused(format!("{} is not a trace of torch.profiler: {error}", path.display())))
        }
        (None, Ok(())) => Ok(()),
    }
}

/// Fails at a value that is too large.
struct Limited<'l, R> {
    input: R,
    /// How much of the current value may still follow.
    left: &'l Cell<usize>,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            let mebibytes = MOST_VALUE_BYTES >> 20;
            return Err(io::Error::other(format!(
                "an event or another value has more than {mebibytes} MiB, which none of torch.profiler's has"
            )));
        }
        let most = buffer.len().min(left);
        let count = self.input.read(&mut buffer[..most])?;
        self.left.set(left - count);
        Ok(count)
    }
}

/// The file's top-level object. An error of the `reader` ends the reading.
struct Members<'r, R> {
    reader: &'r mut R,
    left: &'r Cell<usize>,
    failed: &'r mut Option<Error>,
}

impl<R: Reader> Members<'_, R> {
    fn with_reader<E: serde::de::Error>(
        &mut self,
        hear: impl FnOnce(&mut R) -> Result<()>,
    ) -> std::result::Result<(), E> {
        self.left.set(MOST_VALUE_BYTES);
        hear(self.reader).map_err(|error| {
            *self.failed = Some(error);
            E::custom("the reader failed")
        })
    }
}

impl<'de, R: Reader> Visitor<'de> for Members<'_, R> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object with traceEvents")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == "traceEvents" {
                map.next_value_seed(Events(&mut self))?;
            } else {
                let value: Box<RawValue> = map.next_value()?;
                self.with_reader(|reader| reader.member(&name, &value))?;
            }
        }
        Ok(())
    }
}

struct Events<'m, 'r, R>(&'m mut Members<'r, R>);

impl<'de, R: Reader> DeserializeSeed<'de> for Events<'_, '_, R> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, R: Reader> Visitor<'de> for Events<'_, '_, R> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<(), A::Error> {
        self.0.with_reader(R::begin_events)?;
        while let Some(event) = list.next_element::<Box<RawValue>>()? {
            self.0.with_reader(|reader| reader.event(&event))?;
        }
        self.0.with_reader(R::end_events)
    }
}

#[cfg(test)]
mod tests {
    mod read {
        use serde_json::value::RawValue;

        use crate::kineto::foreign_read::Reader as _;
        use crate::kineto::foreign_read::{MOST_KEPT_BYTES, Reading, nanoseconds};

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

    mod stream {
        use std::fs::File;
        use std::io::Write as _;

        use flate2::Compression;
        use flate2::write::GzEncoder;
        use serde_json::value::RawValue;

        use crate::error::Result;
        use crate::kineto::foreign_read::{MOST_VALUE_BYTES, Reader, read};

        /// The number of events.
        struct Count(u64);

        impl Reader for Count {
            fn member(&mut self, _: &str, _: &RawValue) -> Result<()> {
                Ok(())
            }

            fn begin_events(&mut self) -> Result<()> {
                Ok(())
            }

            fn event(&mut self, _: &RawValue) -> Result<()> {
                self.0 += 1;
                Ok(())
            }

            fn end_events(&mut self) -> Result<()> {
                Ok(())
            }
        }

        #[test]
        fn a_small_file_does_not_fill_the_memory() {
            let folder = tempfile::tempdir().expect("a directory");
            let path = folder.path().join("trace.json.gz");
            let write = |pieces: &[&str]| {
                let mut file = GzEncoder::new(File::create(&path).expect("a file"), Compression::fast());
                pieces.iter().for_each(|piece| file.write_all(piece.as_bytes()).expect("written"));
                file.finish().expect("written");
            };
            let large = "x".repeat(2 * MOST_VALUE_BYTES);
            let sensible = "x".repeat(MOST_VALUE_BYTES / 2);
            for pieces in [
                ["{\"traceEvents\": [{\"name\": \"", &large, "\"}]}"],
                ["{\"metadata\": [\"", &large, "\"], \"traceEvents\": []}"],
                ["{\"", &large, "\": 0, \"traceEvents\": []}"],
            ] {
                write(&pieces);
                let error = read(&path, &mut Count(0)).expect_err("a large value").to_string();
                assert!(error.contains("more than 16 MiB") && error.contains("trace.json.gz"), "{error}");
            }
            let event = format!("{{\"name\": \"{sensible}\"}}");
            write(&["{\"traceEvents\": [", &event, ",", &event, ",", &event, ",", &event, ",", &event, "]}"]);
            let mut count = Count(0);
            read(&path, &mut count).expect("a trace");
            assert_eq!(count.0, 5, "the file may be of any size");
        }
    }
}
