"""DemoTopic, MadeTopic, make_demo: a small log directory to try everything on."""

from cleaner.demo.make import MadeTopic, make_demo
from cleaner.demo.sample_topics import DemoTopic

__all__ = ["DemoTopic", "MadeTopic", "make_demo"]
