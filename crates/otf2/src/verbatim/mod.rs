//! The global definitions of an archive as they are: every kind, in the order of the file, with all fields.
//!
//! [`crate::Definitions`] is for who wants to know what is in an archive. This is for who writes the definitions of
//! one archive into another, where nothing may get lost on the way.

mod definition;
mod field;
mod read;
mod write;

pub use definition::Definition;
pub(crate) use read::read;

/// What a reference refers to. Each kind has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReferenceKind {
    /// A string.
    String,
    /// An attribute.
    Attribute,
    /// A node of the system tree.
    SystemTreeNode,
    /// A group of locations.
    LocationGroup,
    /// A location.
    Location,
    /// A region.
    Region,
    /// A group.
    Group,
    /// A communicator, or one between two groups.
    Comm,
    /// A window.
    RmaWin,
    /// A metric member.
    MetricMember,
    /// A metric class or instance.
    Metric,
    /// A parameter.
    Parameter,
    /// A place in the source code.
    SourceCodeLocation,
    /// A calling context.
    CallingContext,
    /// An interrupt generator.
    InterruptGenerator,
    /// A call path.
    Callpath,
    /// A call site.
    Callsite,
    /// A dimension of a topology.
    CartDimension,
    /// A topology.
    CartTopology,
    /// An interface to files.
    IoParadigm,
    /// A file or directory.
    IoFile,
    /// An open file.
    IoHandle,
    /// A place in the list of communicating locations of a paradigm (OTF2's number).
    CommIndex(u8),
}
