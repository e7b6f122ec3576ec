"""DemoTopic, MadeTopic, make_demo: a small log directory on which to try everything."""

from cleaner.demo.make import MadeTopic, make_demo
from cleaner.demo.sample_topics import DemoTopic

__all__ = ["DemoTopic", "MadeTopic", "make_demo"]
