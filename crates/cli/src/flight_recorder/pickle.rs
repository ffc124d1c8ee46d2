//! Reads pickles of plain data, as PyTorch's C++ pickler and Python's `pickle` write them (protocols 2 to 5).
//!
//! It knows no instruction that names or calls anything. Values refer to each other by index, so neither depth nor
//! shared parts of a hostile pickle cost stack or memory, and what is made of them is counted.

use std::cell::Cell;
use std::collections::HashMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Of a file of 128 MiB; a dump of PyTorch's default buffer, 2000 collectives, has less than 100 000 values.
const MOST_VALUES: usize = 1 << 23;
/// How often values are looked at: a dump refers to the same frames again and again.
const MOST_VISITS: usize = 1 << 24;

enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    List(Vec<u32>),
    /// Keys and values in turn.
    Dict(Vec<u32>),
}

struct Pickle<'a> {
    values: Vec<Value<'a>>,
    visits: Cell<usize>,
}

/// The value of a pickle; fields that `T` does not have are left out.
pub(super) fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    let mut reader =
        Reader { rest: bytes, values: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
    let at = loop {
        let [instruction] = reader.array()?;
        if instruction == b'.' {
            break reader.pop(1)?[0];
        }
        reader.execute(instruction)?;
    };
    let pickle = Pickle { values: reader.values, visits: Cell::new(0) };
    Ok(T::deserialize(Node { pickle: &pickle, at })?)
}

struct Reader<'a> {
    rest: &'a [u8],
    values: Vec<Value<'a>>,
    stack: Vec<u32>,
    marks: Vec<usize>,
    memo: HashMap<u32, u32>,
}

impl<'a> Reader<'a> {
    fn execute(&mut self, instruction: u8) -> Result<()> {
        match instruction {
            // The protocol's number, and the length of a frame.
            0x80 => self.array::<1>().map(|_| ()),
            0x95 => self.array::<8>().map(|_| ()),
            b'N' => self.push(Value::None),
            0x88 | 0x89 => self.push(Value::Bool(instruction == 0x88)),
            b'K' => self.integer(1, false),
            b'M' => self.integer(2, false),
            b'J' => self.integer(4, true),
            0x8a => {
                let [length] = self.array()?;
                self.integer(length.into(), true)
            }
            b'G' => {
                let number = f64::from_be_bytes(self.array()?);
                self.push(Value::Float(number))
            }
            b'X' => {
                let length = u32::from_le_bytes(self.array()?);
                self.text(usize::try_from(length)?)
            }
            0x8c => {
                let [length] = self.array()?;
                self.text(length.into())
            }
            b']' | b')' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'a' => self.fill(1),
            b's' => self.fill(2),
            b'e' | b'u' => self.since_mark().and_then(|count| self.fill(count)),
            b't' => self.since_mark().and_then(|count| self.tuple(count)),
            0x85..=0x87 => self.tuple(usize::from(instruction - 0x84)),
            b'q' => self.array().and_then(|[at]| self.memorize(at.into())),
            b'r' => self.array().and_then(|at| self.memorize(u32::from_le_bytes(at))),
            0x94 => self.memorize(u32::try_from(self.memo.len())?),
            b'h' => self.array().and_then(|[at]| self.recall(at.into())),
            b'j' => self.array().and_then(|at| self.recall(u32::from_le_bytes(at))),
            other => bail!("its instruction {other:#04x} is not for plain data, and is not executed"),
        }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).context("it is truncated")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.bytes(N)?.try_into()?)
    }

    fn push(&mut self, value: Value<'a>) -> Result<()> {
        ensure!(self.values.len() < MOST_VALUES, "it has more than {MOST_VALUES} values");
        self.stack.push(u32::try_from(self.values.len())?);
        self.values.push(value);
        Ok(())
    }

    fn integer(&mut self, length: usize, is_signed: bool) -> Result<()> {
        let bytes = self.bytes(length)?;
        let fill = if is_signed && bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 };
        let mut number = [fill; 8];
        number.get_mut(..length).context("it has a number of more than 64 bits")?.copy_from_slice(bytes);
        self.push(Value::Int(i64::from_le_bytes(number)))
    }

    fn text(&mut self, length: usize) -> Result<()> {
        let text = str::from_utf8(self.bytes(length)?)?;
        self.push(Value::Text(text))
    }

    /// The topmost values of the stack, but none below the last mark.
    fn pop(&mut self, count: usize) -> Result<Vec<u32>> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let at =
            self.stack.len().checked_sub(count).filter(|at| *at >= floor).context("it pops from an empty stack")?;
        Ok(self.stack.split_off(at))
    }

    fn since_mark(&mut self) -> Result<usize> {
        let mark = self.marks.pop().context("its stack has no mark")?;
        Ok(self.stack.len() - mark)
    }

    fn tuple(&mut self, count: usize) -> Result<()> {
        let items = self.pop(count)?;
        self.push(Value::List(items))
    }

    fn fill(&mut self, count: usize) -> Result<()> {
        let items = self.pop(count)?;
        match self.stack.last().and_then(|at| self.values.get_mut(*at as usize)) {
            Some(Value::List(list)) => list.extend(items),
            Some(Value::Dict(list)) if items.len() % 2 == 0 => list.extend(items),
            _ => bail!("it appends to something that is neither a list nor a dict"),
        }
        Ok(())
    }

    fn memorize(&mut self, at: u32) -> Result<()> {
        self.memo.insert(at, *self.stack.last().context("it memoizes from an empty stack")?);
        Ok(())
    }

    fn recall(&mut self, at: u32) -> Result<()> {
        self.stack.push(*self.memo.get(&at).context("it recalls a value that it has not memoized")?);
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Node<'p, 'a> {
    pickle: &'p Pickle<'a>,
    at: u32,
}

impl<'p, 'a> Node<'p, 'a> {
    /// Long texts count more: a reader may look at each letter.
    fn value(self) -> Result<&'p Value<'a>, de::value::Error> {
        let value = self.pickle.values.get(self.at as usize);
        let length = if let Some(Value::Text(text)) = value { text.len() } else { 0 };
        let visits = self.pickle.visits.get() + 1 + length / 32;
        self.pickle.visits.set(visits);
        let value = value.filter(|_| visits < MOST_VISITS);
        value.ok_or_else(|| de::value::Error::custom("it refers to its own values too often"))
    }
}

impl<'a> Deserializer<'a> for Node<'_, 'a> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let node = |at: &u32| Self { at: *at, ..self };
        match self.value()? {
            Value::None => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::List(list) => visitor.visit_seq(SeqDeserializer::new(list.iter().map(node))),
            Value::Dict(list) => {
                let pairs = list.chunks_exact(2).map(|pair| (node(&pair[0]), node(&pair[1])));
                visitor.visit_map(MapDeserializer::new(pairs))
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(self, _: &'static str, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    /// Does not look into it.
    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct enum identifier
    }
}

impl<'a> IntoDeserializer<'a, de::value::Error> for Node<'_, 'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
