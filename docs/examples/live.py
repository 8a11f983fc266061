"""Checks a custom trainer during training: passes one record per step and prints new findings."""

import math
import random

from grpo_doctor import LiveDoctor, StepRecord

doctor = LiveDoctor({"group_size": 8, "learning_rate": 1e-6})
chance = random.Random(0)
for step in range(1, 61):
    reward = 0.3 + 0.005 * step + chance.gauss(0, 0.02)  # your training step goes here
    loss = math.nan if step > 40 else 0.1
    for finding in doctor.push(StepRecord(step=step, reward_mean=reward, loss=loss, grad_norm=0.5)):
        print(f"step {step}: {finding.code} {finding.severity}: {finding.message}")
print(doctor.diagnosis().headline)
