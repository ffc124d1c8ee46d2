//! The words of a program (`--program`).

use crate::calls::Call;
use crate::nccl::Reduction::{Avg, Max, Sum};
use anyhow::Context as _;
use std::collections::BTreeSet;

/// Elements of an operation without a count.
const COUNT: usize = 1000;

/// A program for each rank.
#[derive(Debug, Clone)]
pub(crate) struct Programs(pub(crate) Vec<Vec<Word>>);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Word {
    Call(Called),
    GroupStart,
    GroupEnd,
    Init {
        comm: char,
        nonblocking: bool,
    },
    Split {
        comm: char,
        made: char,
    },
    Destroy(char),
    Abort(char),
    /// Captured on stream 1 as one graph.
    Graph(Vec<Word>),
    /// Launches the last graph.
    Launch,
    Synchronize,
    WaitSeconds(f64),
    Sleep,
    Exit,
    Kill,
    Stop,
    /// A variable of the process, from its start.
    Variable(String, String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Called {
    pub(crate) comm: char,
    pub(crate) call: Call,
    pub(crate) count: usize,
    pub(crate) is_int: bool,
    pub(crate) stream: u8,
}

impl Word {
    /// The communicators that it needs or makes.
    fn comms(&self) -> Vec<char> {
        match self {
            Word::Call(called) => vec![called.comm],
            Word::Init { comm, .. } | Word::Destroy(comm) | Word::Abort(comm) => vec![*comm],
            Word::Split { comm, made } => vec![*comm, *made],
            Word::Graph(words) => words.iter().flat_map(Word::comms).collect(),
            _ => Vec::new(),
        }
    }
}

impl Programs {
    pub(crate) fn parse(text: &str) -> Result<Programs, String> {
        let program = |text: &str| words(&mut text.split_whitespace(), None);
        text.split(';').map(program).collect::<Result<_, _>>().map(Programs)
    }

    pub(crate) fn comms(&self) -> BTreeSet<char> {
        self.0.iter().flatten().flat_map(Word::comms).collect()
    }

    /// Ranks whose programs name a communicator: those are in it, in this order.
    pub(crate) fn members(&self, comm: char) -> Vec<usize> {
        let names = |words: &[Word]| words.iter().any(|word| word.comms().contains(&comm));
        self.0.iter().enumerate().filter(|(_, words)| names(words)).map(|(rank, _)| rank).collect()
    }

    /// The rank of a member in a communicator, and how many ranks that has.
    pub(crate) fn place(&self, rank: usize, comm: char) -> anyhow::Result<(usize, usize)> {
        let members = self.members(comm);
        Ok((members.iter().position(|member| *member == rank).context("no member")?, members.len()))
    }

    /// How many elements of a type the operations of a rank read or write at most.
    pub(crate) fn most_elements(&self, rank: usize, is_int: bool) -> usize {
        let called = calls(self.0.get(rank).map_or(&[], Vec::as_slice)).into_iter();
        let extents = called.filter(|called| called.is_int == is_int).map(|called| {
            let (reads, writes) = called.call.extent(called.count, self.members(called.comm).len());
            reads.max(writes)
        });
        extents.max().unwrap_or(0)
    }

    /// Whether a communicator is made at the beginning, because no program has a word that makes it.
    pub(crate) fn is_made_first(&self, comm: char) -> bool {
        !self.0.iter().flatten().any(|word| match word {
            Word::Init { comm: made, .. } | Word::Split { made, .. } => *made == comm,
            _ => false,
        })
    }

    pub(crate) fn is_split_off(&self, comm: char) -> bool {
        self.0.iter().flatten().any(|word| matches!(word, Word::Split { made, .. } if *made == comm))
    }

    pub(crate) fn variables(&self, rank: usize) -> impl Iterator<Item = (&str, &str)> {
        self.0.get(rank).into_iter().flatten().filter_map(|word| match word {
            Word::Variable(name, value) => Some((name.as_str(), value.as_str())),
            _ => None,
        })
    }
}

fn calls<'w>(words: &'w [Word]) -> Vec<&'w Called> {
    let called = |word: &'w Word| match word {
        Word::Call(called) => vec![called],
        Word::Graph(words) => calls(words),
        _ => Vec::new(),
    };
    words.iter().flat_map(called).collect()
}

pub(crate) fn streams(words: &[Word]) -> BTreeSet<u8> {
    calls(words).into_iter().map(|called| called.stream).chain([1]).collect()
}

/// The words up to a closing one.
fn words<'t>(texts: &mut impl Iterator<Item = &'t str>, end: Option<&str>) -> Result<Vec<Word>, String> {
    let mut found = Vec::new();
    while let Some(text) = texts.next() {
        if Some(text) == end {
            return Ok(found);
        }
        if let Some(times) = text.strip_suffix('{') {
            let times: usize = times.parse().map_err(|_| format!("`{text}`: a number belongs before the brace"))?;
            let repeated = words(texts, Some("}"))?;
            found.extend(std::iter::repeat_n(repeated, times).flatten());
        } else if text == "[" {
            found.push(Word::Graph(words(texts, Some("]"))?));
        } else {
            found.push(word(text).ok_or_else(|| format!("`{text}` is no word of a program"))?);
        }
    }
    end.map_or(Ok(found), |end| Err(format!("there is no `{end}` at the end")))
}

fn word(text: &str) -> Option<Word> {
    if let Some((name, value)) = text.split_once('=') {
        return Some(Word::Variable(name.to_owned(), value.to_owned()));
    }
    let Some((comm, what)) = text.split_once('.').filter(|(comm, _)| comm.len() == 1) else {
        return Some(match text {
            "(" => Word::GroupStart,
            ")" => Word::GroupEnd,
            "launch" => Word::Launch,
            "sync" => Word::Synchronize,
            "sleep" => Word::Sleep,
            "exit" => Word::Exit,
            "kill" => Word::Kill,
            "stop" => Word::Stop,
            _ => Word::WaitSeconds(text.strip_prefix("wait:")?.parse().ok().filter(|seconds| *seconds >= 0.0)?),
        });
    };
    let comm = comm.chars().next().filter(char::is_ascii_uppercase)?;
    let made = || what.strip_prefix("split/").filter(|made| made.len() == 1)?.chars().next();
    match what {
        "init" => Some(Word::Init { comm, nonblocking: false }),
        "init/nb" => Some(Word::Init { comm, nonblocking: true }),
        "destroy" => Some(Word::Destroy(comm)),
        "abort" => Some(Word::Abort(comm)),
        _ => made().map(|made| Word::Split { comm, made }).or_else(|| operation(comm, what)),
    }
}

/// `ar/avg:100@2`: what, its variants, its count and its stream.
fn operation(comm: char, text: &str) -> Option<Word> {
    let (text, stream) = text.split_once('@').unwrap_or((text, "1"));
    let (text, count) =
        text.split_once(':').map_or(Some((text, COUNT)), |(text, count)| Some((text, count.parse().ok()?)))?;
    let mut parts = text.split('/');
    let name = parts.next()?;
    let (mut reduction, mut is_int, mut root) = (Sum, false, 0);
    for variant in parts {
        match variant {
            "avg" => reduction = Avg,
            "max" => reduction = Max,
            "i32" => is_int = true,
            other => root = other.parse().ok()?,
        }
    }
    let call = match name {
        "ar" => Call::AllReduce(reduction),
        "ag" => Call::AllGather,
        "rs" => Call::ReduceScatter(reduction),
        "bc" => Call::Broadcast(root),
        "rd" => Call::Reduce(reduction, root),
        _ => match name.split_at_checked(1)? {
            ("s", peer) => Call::Send(peer.parse().ok()?),
            ("r", peer) => Call::Recv(peer.parse().ok()?),
            _ => return None,
        },
    };
    Some(Word::Call(Called { comm, call, count, is_int, stream: stream.parse().ok()? }))
}
