"""What is told about a round: a page with plots, and the same in short for a terminal."""

from __future__ import annotations

from vrm.report.files import read_facts, write_report
from vrm.report.page import render
from vrm.report.summary import Section, summary_lines

__all__ = ["Section", "read_facts", "render", "summary_lines", "write_report"]
