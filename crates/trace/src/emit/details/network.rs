//! The attributes of what the network plugin did.

use super::Details;
use nccl_events::NetData;
use schema::attribute;

impl Details<'_, '_> {
    /// What the plugin said when it began; as numbers, because their meaning is the plugin's.
    pub(super) fn net_plugin(&mut self, id: i64, data: NetData) -> otf2::Result<()> {
        let id = id.cast_unsigned();
        self.add(attribute::PluginId, id)?;
        match data {
            NetData::Opaque => Ok(()),
            NetData::IbQueuePair { device, work_request, opcode, queue_pair, bytes } => {
                self.add(attribute::NetDevice, device)?;
                self.add(attribute::QueuePair, queue_pair)?;
                self.add(attribute::Opcode, opcode)?;
                self.add(attribute::WorkRequest, work_request)?;
                self.add(attribute::Bytes, bytes)
            }
            NetData::Socket { descriptor, operation, bytes } => {
                self.add(attribute::Socket, descriptor)?;
                self.add(attribute::Opcode, operation)?;
                self.add(attribute::Bytes, bytes)
            }
        }
    }
}
