//! What NCCL passes with an event and with a state, built for any version.

use std::collections::BTreeSet;
use std::ffi::CStr;

use crate::interface::{Kind, Version};
use crate::layout::{self, Type};
use crate::strings;

/// As many bytes as a plugin is given for a descriptor, whatever its version: more than the largest has.
pub(crate) const BYTES: usize = 192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Text(Option<&'static CStr>),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Number(i64::from(number).cast_unsigned())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(strings::keep(text))
    }
}

/// The fields of an event by name, without versions: a script may set any field of any kind. What is not set is zero
/// or NULL, as in a descriptor that NCCL does not fill.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.put(name, value.into());
        self
    }

    pub(crate) fn put(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    /// Sets a field from text; numbers are decimal or `0x…`, strings may be NULL.
    pub(crate) fn parse(&mut self, name: &str, text: &str) -> Result<(), String> {
        let Some((name, _, kind)) = layout::names().find(|(known, ..)| *known == name) else {
            let names: BTreeSet<&str> = layout::names().map(|(name, ..)| *name).collect();
            let names = Vec::from_iter(names);
            return Err(format!("there is no field {name:?}; the fields are: {}", names.join(", ")));
        };
        let value = match kind {
            Type::Bytes(width) => number(text, *width)
                .map(Value::Number)
                .ok_or_else(|| format!("{text:?} is no value for the field {name}, a number of {width} bytes"))?,
            Type::Text | Type::Number(_) if text == "NULL" => Value::Text(None),
            Type::Text | Type::Number(_) => Value::from(text),
        };
        self.put(name, value);
        Ok(())
    }
}

fn number(text: &str, width: usize) -> Option<u64> {
    let number = match text {
        "true" => 1,
        "false" => 0,
        _ => match text.strip_prefix('-') {
            Some(digits) => -i128::from(crate::interface::parse_number(digits)?),
            None => i128::from(crate::interface::parse_number(text)?),
        },
    };
    let most = 1_i128 << (8 * width);
    let fits = number < most && number >= -most / 2;
    // The two's complement of as many bytes as the member has.
    fits.then(|| u64::try_from(number.rem_euclid(most)).ok()).flatten()
}

/// A descriptor of any version. Behind its end, where NCCL has whatever is on its stack, lies a pattern, so that a
/// plugin that reads too far shows it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Descriptor([u8; BYTES]);

impl Descriptor {
    /// As in NCCL it is zeroed and then filled with the member of its kind.
    pub(crate) fn new(version: Version, kind: Kind, parent: u64, rank: i32, fields: &Fields) -> Self {
        let mut new = Self([0xa5; BYTES]);
        new.0[..layout::size(version)].fill(0);
        // Up to v4 the type is one byte: NCCL's shims keep wider types from such a plugin.
        let (width, narrow) =
            if version.is_before_api_events() { (1, u8::try_from(kind.0).unwrap_or(0).into()) } else { (8, kind.0) };
        new.poke(0, width, narrow);
        new.poke(layout::RANK, 4, i64::from(rank).cast_unsigned());
        new.set_parent(parent);
        for (name, at, kind) in layout::members(version, kind) {
            let value = fields.get(name);
            match (kind, value) {
                (Type::Bytes(width), Some(Value::Number(number))) => new.poke(*at, *width, number),
                (Type::Text, Some(Value::Text(Some(text)))) => {
                    new.poke(*at, 8, text.as_ptr().expose_provenance() as u64)
                }
                (Type::Number(number_of_name), value) => {
                    let text = match value {
                        Some(Value::Text(Some(text))) => text.to_str().unwrap_or(""),
                        _ => "",
                    };
                    new.poke(*at, 1, number_of_name(text).into())
                }
                _ => true,
            };
        }
        new
    }

    #[inline]
    pub(crate) fn set_parent(&mut self, parent: u64) {
        self.put(layout::PARENT, parent);
    }

    #[inline]
    pub(crate) fn put(&mut self, offset: usize, value: u64) {
        if let Some(target) = self.0[offset..].first_chunk_mut() {
            *target = value.to_le_bytes();
        }
    }

    /// Overwrites `width` bytes at an offset: for what no field says, garbage and forks of the interface. Returns
    /// whether the bytes lie inside what the plugin is given.
    #[inline]
    pub(crate) fn poke(&mut self, offset: usize, width: usize, value: u64) -> bool {
        let target = self.0.get_mut(offset..offset.saturating_add(width));
        let source = value.to_le_bytes();
        match target.zip(source.get(..width)) {
            Some((target, source)) => target.copy_from_slice(source),
            None => return false,
        }
        true
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StateArgs {
    #[default]
    Null,
    Zero,
    Appended(i32),
    /// States 0 to 7: bytes and steps. Version 4 and later have the bytes only.
    Operation(u64, i32),
    /// Bytes of a step, time of the GPU, or address of a net plugin's data. Versions 1 to 3 get zeros.
    Word(u64),
}

impl StateArgs {
    /// The structure for a plugin of this version; `None` for NULL.
    pub(crate) fn raw(self, version: Version) -> Option<[u64; 4]> {
        let old = version.number() <= 3;
        let low = |number: i32| u64::from(number.cast_unsigned());
        match self {
            Self::Null => None,
            Self::Word(_) if old => Some([0; 4]),
            Self::Zero => Some([0; 4]),
            Self::Appended(operations) => Some([low(operations), 0, 0, 0]),
            Self::Operation(bytes, steps) if old => Some([bytes, low(steps), 0, 0]),
            Self::Operation(word, _) | Self::Word(word) => Some([word, 0, 0, 0]),
        }
    }
}

/// What NCCL's own net plugins hand over with a NetPlugin event: option of scripts, type in recordings, and members.
type NetLayout = (&'static str, &'static str, &'static [&'static str]);

const NET_LAYOUTS: [NetLayout; 2] = [
    ("net_ib", "ibQueuePair", &["device", "workRequest", "opcode", "queuePair", "bytes"]),
    ("net_socket", "socket", &["descriptor", "operation", "bytes"]),
];

/// Identity, and the structure: a byte that says which, and from the second word on its members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetData {
    pub(crate) id: u64,
    pub(crate) block: [u64; 5],
}

impl NetData {
    /// `name` is of a script or a recording; `member` gives members by place and name.
    pub(crate) fn new(name: &str, member: impl Fn(usize, &str) -> Option<i64>) -> Option<Self> {
        let is_it = |(option, kind, _): &NetLayout| *option == name || *kind == name;
        let place = NET_LAYOUTS.iter().position(is_it)?;
        let members = NET_LAYOUTS[place].2.iter().enumerate();
        let members = members.map(|(place, name)| member(place, name)).collect::<Option<Vec<i64>>>()?;
        let pair = |low: i64, high: i64| (low & 0xffff_ffff | high << 32).cast_unsigned();
        let block = match *members {
            [device, work_request, opcode, queue_pair, bytes] => {
                [1, pair(device, 0), work_request.cast_unsigned(), pair(opcode, queue_pair), bytes.cast_unsigned()]
            }
            [descriptor, operation, bytes] => [1, pair(descriptor, operation), bytes.cast_unsigned(), 0, 0],
            _ => return None,
        };
        Some(Self { id: (place as u64 + 1) << 16 | 1, block })
    }
}
