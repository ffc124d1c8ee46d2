//! XSpace, the profile of TensorFlow, JAX and TensorBoard (`tsl/profiler/protobuf/xplane.proto`).
//!
//! Serialized spaces can be concatenated: the result has the planes of both.

use std::collections::BTreeMap;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len, message};

/// The plane with the time to which all other planes are relative.
pub const TASK_ENVIRONMENT: &str = "Task Environment";
/// Stat of the plane [`TASK_ENVIRONMENT`]: when the profile began, in ns since 1970.
pub const PROFILE_START_TIME: &str = "profile_start_time";
pub const PROFILE_STOP_TIME: &str = "profile_stop_time";
/// Prefix of plane names that viewers show as devices of an unknown kind.
pub const CUSTOM_DEVICE: &str = "/device:CUSTOM:";

#[derive(Clone, PartialEq, Message)]
pub struct XSpace {
    #[prost(message, repeated, tag = "1")]
    pub planes: Vec<XPlane>,
    #[prost(string, repeated, tag = "4")]
    pub hostnames: Vec<String>,
}

/// The data of one device or one source of events. [`begin_plane`] appends its lines.
#[derive(Clone, PartialEq, Message)]
pub struct XPlane {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(btree_map = "int64, message", tag = "4")]
    pub event_metadata: BTreeMap<i64, XEventMetadata>,
    #[prost(btree_map = "int64, message", tag = "5")]
    pub stat_metadata: BTreeMap<i64, XStatMetadata>,
    #[prost(message, repeated, tag = "6")]
    pub stats: Vec<XStat>,
}

/// A line. [`begin_line`] appends its events.
#[derive(Clone, PartialEq, Message)]
pub struct XLine {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int64, tag = "3")]
    pub timestamp_ns: i64,
    #[prost(int64, tag = "9")]
    pub duration_ps: i64,
    #[prost(int64, tag = "10")]
    pub display_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct XEvent {
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
    #[prost(int64, optional, tag = "2")]
    pub offset_ps: Option<i64>,
    #[prost(int64, tag = "3")]
    pub duration_ps: i64,
    #[prost(message, repeated, tag = "4")]
    pub stats: Vec<XStat>,
}

/// An attribute: a name and one of the values.
#[derive(Clone, PartialEq, Message)]
pub struct XStat {
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
    #[prost(double, optional, tag = "2")]
    pub double_value: Option<f64>,
    #[prost(uint64, optional, tag = "3")]
    pub uint64_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub int64_value: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub str_value: Option<String>,
    /// Id of the stat metadata whose name is the text.
    #[prost(uint64, optional, tag = "7")]
    pub ref_value: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct XEventMetadata {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct XStatMetadata {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
}

impl XEvent {
    pub fn append_to(&self, events: &mut Vec<u8>) {
        message::encode(4, self, events);
    }
}

/// Appends a plane to a space, up to its lines. `lines` is the size in bytes of the [`begin_line`] output and events.
pub fn begin_plane(plane: &XPlane, lines: u64, space: &mut Vec<u8>) {
    begin(1, &plane.encode_to_vec(), lines, space);
}

/// Appends a line to a plane, up to its events. `events` is the size in bytes of the events.
pub fn begin_line(line: &XLine, events: u64, plane: &mut Vec<u8>) {
    begin(3, &line.encode_to_vec(), events, plane);
}

/// The size in bytes of a line including its events.
pub fn line_bytes(line: &XLine, events: u64) -> u64 {
    let content = line.encoded_len() as u64 + events;
    (key_len(3) + encoded_len_varint(content)) as u64 + content
}

fn begin(tag: u32, head: &[u8], rest: u64, out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(head.len() as u64 + rest, out);
    out.extend_from_slice(head);
}
