//! The attributes of kernels and copies, and what leads from launches to them.

use otf2::AttributeValue;

use super::Details;
use crate::emit::attributes::Attribute;
use crate::links::gpu_work::{What, names};
use journal::format::record::Symbol;
use nccl_events::gpu::{Copy, Kernel, extent};
use tables::EventRow;

impl Details<'_, '_> {
    pub(super) fn gpu_work(&mut self, at: u32) -> otf2::Result<()> {
        let Some(&work) = self.model.links.gpu.get(at) else {
            return Ok(());
        };
        self.number(Attribute::Parent, work.parent, 0)?;
        self.number(Attribute::ExternalCorrelation, work.external, 0)?;
        match work.what {
            What::Kernel(kernel) => self.kernel(&kernel),
            What::Copy(copy) => self.copy(&copy),
        }
    }

    /// What CUPTI was to tell with the work of a launch or a copy-engine collective, where it did.
    pub(super) fn external(&mut self, launch: EventRow) -> otf2::Result<()> {
        let model = self.model;
        let joined = Some(launch).filter(|&launch| model.links.gpu.is_joined(launch));
        let head = joined.and_then(|launch| model.tables.head(launch));
        let id = head.map_or(0, |head| head.id);
        self.number(Attribute::ExternalCorrelation, id, 0)
    }

    fn part(&mut self, attribute: Attribute, value: u32) -> otf2::Result<()> {
        if value == 0 {
            return Ok(());
        }
        self.add(attribute, AttributeValue::U32(value))
    }

    fn word(&mut self, attribute: Attribute, text: &str) -> otf2::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.string(attribute, self.definitions.text(text))
    }

    fn kernel(&mut self, kernel: &Kernel<Symbol>) -> otf2::Result<()> {
        self.part(Attribute::Correlation, kernel.correlation)?;
        self.word(Attribute::Grid, &extent(kernel.grid))?;
        self.word(Attribute::Block, &extent(kernel.block))?;
        self.part(Attribute::Registers, kernel.registers_per_thread.into())?;
        self.part(Attribute::StaticShared, kernel.static_shared_bytes)?;
        self.part(Attribute::DynamicShared, kernel.dynamic_shared_bytes)?;
        self.part(Attribute::Graph, kernel.graph)?;
        self.number(Attribute::GraphNode, kernel.graph_node, 0)?;
        self.number(Attribute::SourceGraphNode, kernel.source_graph_node, 0)
    }

    fn copy(&mut self, copy: &Copy) -> otf2::Result<()> {
        self.part(Attribute::Correlation, copy.correlation)?;
        self.number(Attribute::Bytes, copy.bytes, 0)?;
        if copy.count > 1 {
            self.part(Attribute::Copies, copy.count)?;
        }
        for (attribute, device) in
            [(Attribute::SourceDevice, copy.source_device), (Attribute::DestinationDevice, copy.destination_device)]
        {
            if device != copy.device {
                self.add(attribute, AttributeValue::U32(device))?;
            }
        }
        self.word(Attribute::SourceMemory, names::memory_kind(copy.source_kind))?;
        let to = names::memory_kind(copy.destination_kind);
        self.word(Attribute::DestinationMemory, to)?;
        self.number(Attribute::GraphNode, copy.graph_node, 0)
    }
}
