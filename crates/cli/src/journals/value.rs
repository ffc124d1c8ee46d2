//! Named values and their JSON: on one line, in a fixed order, with times exact to the nanosecond.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::Write as _;

use serde::Serialize;

use crate::units;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Text(Cow<'a, str>),
    Unsigned(u64),
    Signed(i64),
    Flag(bool),
    /// A handle or an address; 0 is NULL.
    Address(u64),
    Float(f64),
    /// A time or duration in ns, written to JSON in µs with a decimal point: a float would not hold large ones exactly.
    Time(u64),
    Several(Vec<Self>),
    Object(List<'a>),
    /// Like `Object`, with names that are not known at compile time.
    Attributes(Vec<(String, Self)>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// CLOCK_MONOTONIC; ticks until the clock is known.
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
            // The shortest digits that read back as the same number; JSON has no infinities or NaN.
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

    /// Like `{:#x}`, which takes several times as long: most fields of a line are addresses.
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
