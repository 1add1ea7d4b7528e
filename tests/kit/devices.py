"""What smartctl, nvme and a fence agent print."""

from __future__ import annotations

ATA = {
    "power_cycle_count": 40,
    "ata_smart_attributes": {
        "table": [
            {"id": 12, "name": "Power_Cycle_Count", "raw": {"value": 41}},
            {"id": 174, "name": "Unexpect_Power_Loss_Ct", "raw": {"value": 7}},
            {"id": 192, "name": "Power-Off_Retract_Count", "raw": {"value": 9}},
        ]
    },
}

NVME = {"unsafe_shutdowns": 12, "power_cycles": 345}

XML = """<?xml version="1.0" ?>
<resource-agent name="fence_x"><parameters>
  <parameter name="action" required="1"/>
  <parameter name="ip" required="1" obsoletes="ipaddr"/>
  <parameter name="ipaddr" required="1" deprecated="1"/>
  <parameter name="plug" required="1" obsoletes="port"/>
  <parameter name="port" required="1" deprecated="1"/>
  <parameter name="password" required="0"/>
  <parameter name="systems_uri" required="0"/>
  <parameter name="method" required="0"/>
</parameters><actions>{}</actions></resource-agent>"""
