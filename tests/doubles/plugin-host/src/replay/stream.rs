//! Reads a recorded stream: JSON Lines, one finished event, state or lifecycle record a line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::line::{Details, Line, Net, RawMoment};
use crate::fields::{Fields, Text, parse_number};
use crate::kind::Kind;
use crate::state_args::StateArgs;

/// One recorded stream: what one process was told.
#[derive(Debug, Default)]
pub struct Stream {
    /// `init` calls.
    pub inits: Vec<Init>,
    /// `finalize` calls.
    pub finalizes: Vec<Finalize>,
    /// Events.
    pub events: Vec<Event>,
    /// States.
    pub states: Vec<State>,
    /// Kernels that ran: no callbacks.
    pub kernels: Vec<Kernel>,
}

/// A recorded kernel. Times are ns of the recording's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The external id that its launch has, too.
    pub launch: u64,
    /// CUPTI's number of the device.
    pub device: u32,
    /// CUPTI's number of the stream.
    pub stream: u32,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub stop_ns: u64,
    /// Its name, mangled.
    pub name: String,
}

/// When a callback was called and by whom. Times are ns of the recording's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at_ns: u64,
    /// The recorded thread.
    pub tid: i64,
}

/// Who a communicator is: one process may hold several ranks of one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommRank {
    /// The communicator's id.
    pub comm_id: u64,
    /// The rank.
    pub rank: i32,
}

/// A recorded `init`.
#[derive(Clone, Debug)]
pub struct Init {
    /// When.
    pub when: Moment,
    /// The recorded process.
    pub pid: i32,
    /// Of what.
    pub who: CommRank,
    /// Number of ranks.
    pub ranks: i32,
    /// Number of hosts; 1 where the recording does not say.
    pub nodes: i32,
    /// The communicator's name; NULL when it was empty.
    pub name: Text,
}

/// A recorded `finalize`.
#[derive(Clone, Copy, Debug)]
pub struct Finalize {
    /// When.
    pub when: Moment,
    /// Of what.
    pub who: CommRank,
}

/// A recorded event. Addresses are the recording plugin's and may be reused by it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What kind.
    pub kind: Kind,
    /// `startEvent`.
    pub start: Moment,
    /// `stopEvent`, if there was one.
    pub stop: Option<Moment>,
    /// Its handle.
    pub address: u64,
    /// `parentObj`, 0 for NULL.
    pub parent: u64,
    /// `parentGroup`, 0 for NULL.
    pub group: u64,
    /// Its communicator.
    pub who: CommRank,
    /// The external id of what it launched; 0 for none.
    pub launch: u64,
    /// The descriptor's fields.
    pub fields: Fields,
}

/// A recorded state.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// When.
    pub when: Moment,
    /// The event's handle.
    pub address: u64,
    /// NCCL's number.
    pub number: u32,
    /// Its argument.
    pub args: StateArgs,
}

/// A stream could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file cannot be read.
    #[error("cannot read the stream {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// No callback in it.
    #[error("{} has no events: is it a recorded stream (JSON Lines of events and states)?", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Stream {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, a line is malformed, or there is no event.
    pub fn read(path: &Path) -> Result<Self, StreamError> {
        let text = fs::read_to_string(path).map_err(|source| StreamError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut stream = Self::default();
        let mut strings = Strings::default();
        for (place, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            stream
                .take(line, &mut strings)
                .map_err(|reason| StreamError::Line {
                    path: path.to_owned(),
                    line: place + 1,
                    reason,
                })?;
        }
        if stream.events.is_empty() && stream.inits.is_empty() {
            return Err(StreamError::Empty {
                path: path.to_owned(),
            });
        }
        Ok(stream)
    }

    /// The kernels that an event launched.
    pub fn kernels_of(&self, event: &Event) -> impl Iterator<Item = &Kernel> {
        let launch = event.launch;
        let is_its = move |kernel: &&Kernel| launch != 0 && kernel.launch == launch;
        self.kernels.iter().filter(is_its)
    }

    /// The device of a rank: where its kernels ran.
    #[must_use]
    pub fn device_of(&self, who: CommRank) -> Option<u32> {
        let mut its = self.events.iter().filter(|event| event.who == who);
        its.find_map(|event| Some(self.kernels_of(event).next()?.device))
    }

    fn take(&mut self, text: &str, strings: &mut Strings) -> Result<(), String> {
        let line: Line<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match (line.record_type, line.kind, line.func) {
            (Some("event"), Some(kind), _) => self.events.push(event(&line, kind, strings)?),
            (Some("state"), ..) => self.states.push(state(&line)?),
            (_, Some("ProfilerLifecycle"), Some("ProfilerInit")) => {
                let details = line.details.as_ref();
                let name = details.and_then(|details| details.comm_name.as_deref());
                self.inits.push(Init {
                    when: moment(line.start.as_ref())?,
                    pid: line.start.as_ref().map_or(0, |start| start.pid),
                    who: who(&line)?,
                    ranks: details.map_or(0, |details| details.nranks),
                    nodes: details.and_then(|details| details.nnodes).unwrap_or(1),
                    name: strings.get(name.filter(|name| !name.is_empty())),
                });
            }
            (_, Some("ProfilerLifecycle"), Some("ProfilerFinalize")) => {
                self.finalizes.push(Finalize {
                    when: moment(line.start.as_ref())?,
                    who: who(&line)?,
                })
            }
            // No callback: one that does not say all, or of another kind, is of no use and does no harm.
            (Some("cuptiActivity"), ..) => self.kernels.extend(kernel(&line)),
            // What was found out about GPUs is no callback.
            (Some("gpu"), ..) => {}
            (record, kind, func) => {
                return Err(format!(
                    "unknown record (recordType {record:?}, type {kind:?}, func {func:?})"
                ));
            }
        }
        Ok(())
    }
}

fn kernel(line: &Line<'_>) -> Option<Kernel> {
    let stream = line.stream.and_then(parse_number)?;
    Some(Kernel {
        launch: line.ext_corr_id?,
        device: line.device_id?,
        stream: u32::try_from(stream).ok()?,
        start_ns: moment(line.start.as_ref()).ok()?.at_ns,
        stop_ns: moment(line.stop.as_ref()).ok()?.at_ns,
        name: line.name?.to_owned(),
    })
}

fn event(line: &Line<'_>, kind: &str, strings: &mut Strings) -> Result<Event, String> {
    let empty = Details::default();
    let details = line.details.as_ref().unwrap_or(&empty);
    let (net_id, net_data) = details.net.map_or((details.net_id, 0), Net::keep);
    // A type that NCCL does not define is a number, which is its bit.
    let known = Kind::from_name(kind).or_else(|| parse_number(kind).map(Kind::from_type));
    Ok(Event {
        kind: known.ok_or_else(|| format!("unknown event type {kind:?}"))?,
        start: moment(line.start.as_ref())?,
        stop: line
            .stop
            .as_ref()
            .map(|stop| moment(Some(stop)))
            .transpose()?,
        address: line
            .event_addr
            .and_then(parse_number)
            .ok_or("no eventAddr")?,
        parent: handle(line.parent_obj)?,
        group: handle(details.parent_group)?,
        who: who(line)?,
        launch: line.ext_corr_id.unwrap_or(0),
        fields: Fields {
            func: strings.get(details.func.as_deref()),
            count: details.count,
            datatype: strings.get(details.dtype.as_deref()),
            root: details.root,
            stream: handle(details.stream)?,
            graph_captured: details.graph_captured,
            depth: details.depth,
            sequence: details.seq,
            send_buffer: handle(details.send_buff)?,
            recv_buffer: handle(details.recv_buff)?,
            buffer: handle(details.buff)?,
            channels: details.channels,
            warps: details.warps,
            algorithm: strings.get(details.algo.as_deref()),
            protocol: strings.get(details.proto.as_deref()),
            peer: details.peer,
            pid: details.event_pid,
            channel: details.channel,
            steps: details.steps,
            chunk_bytes: details.chunk_size,
            is_send: details.is_send,
            step: details.step,
            gpu_ns: details.p_timer,
            comm_hash: details.comm_hash,
            user_tag: details.user_tag,
            kernel_variant: strings.get(details.kernel_variant.as_deref()),
            is_symmetric: details.is_symmetric,
            net_id,
            net_data,
            sync_strategy: strings.get(details.sync_strategy.as_deref()),
            intra_batch_sync: details.intra_batch_sync,
            batch_size: details.batch_size,
            batches: details.batches,
            ce_sequence: details.ce_seq,
            is_complete: details.is_complete,
            ranks: details.nranks,
            operations: details.operations,
            bytes: details.bytes,
            intra_sync: details.intra_sync,
            phase: details.phase,
            phase_name: strings.get(details.phase_name.as_deref()),
            ..Fields::default()
        },
    })
}

fn state(line: &Line<'_>) -> Result<State, String> {
    let number = line.id.ok_or("a state without id")?;
    // What NCCL 2.27 and later pass with each state (ProxyOpInProgress: a structure of zeros).
    let args = match number {
        _ if line.no_args => StateArgs::Null,
        23 | 24 => StateArgs::Null,
        0..=7 if line.trans_size.is_some() || line.steps.is_some() => StateArgs::Operation {
            bytes: line.trans_size.unwrap_or(0),
            steps: line.steps.unwrap_or(0),
        },
        13..=18 => StateArgs::Appended {
            operations: line.appended_proxy_ops.unwrap_or(0),
        },
        22 | 31 => StateArgs::GpuTime {
            gpu_ns: line.p_timer.unwrap_or(0),
        },
        8..=12 | 20 => StateArgs::Step {
            bytes: line.trans_size.unwrap_or(0),
        },
        _ => StateArgs::Zero,
    };
    Ok(State {
        when: Moment {
            at_ns: nanoseconds(line.ts.ok_or("a state without ts")?)?,
            tid: line.tid.ok_or("a state without tid")?,
        },
        address: line
            .event_addr
            .and_then(parse_number)
            .ok_or("no eventAddr")?,
        number,
        args,
    })
}

fn who(line: &Line<'_>) -> Result<CommRank, String> {
    Ok(CommRank {
        comm_id: line.comm_id.ok_or("no commId")?,
        rank: line.rank.ok_or("no rank")?,
    })
}

fn moment(raw: Option<&RawMoment<'_>>) -> Result<Moment, String> {
    let raw = raw.ok_or("no start")?;
    Ok(Moment {
        at_ns: nanoseconds(raw.ts)?,
        tid: raw.tid,
    })
}

/// µs with up to three decimals to ns, digit by digit: an f64 does not hold the larger ones exactly.
fn nanoseconds(raw: &RawValue) -> Result<u64, String> {
    let text = raw.get();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction:0<3.3}");
    digits
        .parse()
        .map_err(|_| format!("{text} is not a time in µs"))
}

fn handle(text: Option<&str>) -> Result<u64, String> {
    match text {
        None | Some("null" | "(nil)" | "") => Ok(0),
        Some(text) => parse_number(text).ok_or_else(|| format!("{text:?} is not an address")),
    }
}

/// Equal strings are one string, as in NCCL.
#[derive(Default)]
struct Strings(BTreeMap<String, Text>);

impl Strings {
    fn get(&mut self, text: Option<&str>) -> Text {
        let Some(text) = text else { return Text::NULL };
        *self
            .0
            .entry(text.to_owned())
            .or_insert_with(|| Text::leak(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_nanoseconds() {
        for (text, ns) in [
            ("8993953357171.293", 8_993_953_357_171_293),
            ("9993953357171.001", 9_993_953_357_171_001),
            ("5", 5000),
            ("5.5", 5500),
            ("5.1239", 5123),
        ] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            assert_eq!(nanoseconds(&raw), Ok(ns), "{text}");
        }
        let negative = RawValue::from_string("-1".to_owned()).unwrap();
        assert!(nanoseconds(&negative).is_err());
    }

    #[test]
    fn a_bad_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let line =
            r#"{"recordType":"event","type":"ncclProfileMoon","start":{"ts":1.0,"pid":1,"tid":1}}"#;
        fs::write(&path, line).unwrap();
        let message = Stream::read(&path).unwrap_err().to_string();
        assert!(
            message.contains("line 1") && message.contains("Moon"),
            "{message}"
        );
        fs::write(&path, "").unwrap();
        assert!(
            Stream::read(&path)
                .unwrap_err()
                .to_string()
                .contains("no events")
        );
    }
}
